# SPDX-License-Identifier: Apache-2.0
"""The store for programs that wait for each call."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from .closing import ClosedAtExit
from .errors import KvError, Result
from .library import (
    GET,
    SET,
    Cursor,
    Key,
    KeyText,
    Op,
    Options,
    Source,
    Value,
    key_bytes,
    library,
    take,
    take_keys,
    ttl_of,
)
from .watch import Watcher


class Versioned(NamedTuple):
    """A value with its version; a missing key has the value None and the version 0."""

    value: memoryview | None
    version: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a client; those of struct kv_options in verbena/kv.h."""

    timeout: float | None = 10.0  # seconds for each operation; None: no limit
    transport: str = "rdma"  # or "tcp"
    protocol: str = "auto"  # or "eager", "rndv"
    insecure: bool = False  # authenticate no peer, and do not encrypt the set-up
    ca: str = ""  # names of PEM files
    certificate: str = ""
    key: str = ""
    device: str = ""  # name of the RDMA device; the default is the best one
    one_sided: bool = False  # GETs read published values by RDMA READ alone
    retry: bool = True  # an operation is sent again when its connection is lost
    lanes: int = 1  # threads that do not wait for each other
    etcd_ca: str = ""  # for "etcds://": names of files, and a user; or VERBENA_ETCD_CA and so on
    etcd_certificate: str = ""
    etcd_key: str = ""
    etcd_user: str = ""
    etcd_password_file: str = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "timeout":
                if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                    raise TypeError(f"Settings: timeout must be a number of seconds or None, not {value!r}")
            elif type(value) is not type(each.default):
                raise TypeError(f"Settings: {each.name} must be {type(each.default).__name__}, not {value!r}")


def checked(servers: str, settings: Settings | None) -> tuple[str, Settings]:
    """Return what a constructor was given. TypeError: it is something else."""
    if not isinstance(servers, str):
        raise TypeError(f'servers must be a str such as "10.0.0.1" or "a:7472,b:7472", not {servers!r}')
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError(f"settings must be Settings(...), not {settings!r}")
    return servers, settings or Settings()


def open_handle(servers: str, settings: Settings) -> int:
    """Return a kv_handle. KvError: there is no server, or it is not trusted."""
    options = Options(
        size=ctypes.sizeof(Options),
        insecure=settings.insecure,
        ca=settings.ca.encode() or None,
        certificate=settings.certificate.encode() or None,
        key=settings.key.encode() or None,
        transport=settings.transport.encode(),
        protocol=settings.protocol.encode(),
        device=settings.device.encode() or None,
        one_sided=settings.one_sided,
        timeout_ms=-1 if settings.timeout is None else max(1, round(settings.timeout * 1000)),
        no_retry=not settings.retry,
        lanes=settings.lanes,
        etcd_ca=settings.etcd_ca.encode() or None,
        etcd_certificate=settings.etcd_certificate.encode() or None,
        etcd_key=settings.etcd_key.encode() or None,
        etcd_user=settings.etcd_user.encode() or None,
        etcd_password_file=settings.etcd_password_file.encode() or None,
    )
    handle = ctypes.c_void_p()
    result = library().kv_open_with(servers.encode(), ctypes.byref(options), ctypes.byref(handle))
    if result != Result.OK or handle.value is None:
        raise KvError(result, library().kv_last_error(None).decode())
    return handle.value


class Store(ClosedAtExit):
    """A client of one server or several, from construction to close(); also a context manager."""

    def __init__(self, servers: str, settings: Settings | None = None) -> None:
        """Connect to "host[:port]", a list of these with commas, or an etcd prefix.

        "etcd://HOST:2379/PREFIX", or "etcds://HOST:2379,HOST:2379/PREFIX" with TLS.
        """
        self._handle: int | None = open_handle(*checked(servers, settings))
        self._library = library()
        self._watchers: set[Watcher] = set()

    def get(self, key: Key) -> memoryview | None:
        """Return the value, or None if the key is missing."""
        name, value, length = key_bytes(key), ctypes.c_void_p(), ctypes.c_size_t()
        result = self._library.kv_getn(self._open(), name, len(name), ctypes.byref(value), ctypes.byref(length))
        return None if self._is_missing(result) else take(value.value, length.value)

    def get_version(self, key: Key) -> Versioned:
        """Return the value and its version."""
        name, value, length, version = key_bytes(key), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_ulonglong()
        result = self._library.kv_get_version(
            self._open(), name, len(name), ctypes.byref(value), ctypes.byref(length), ctypes.byref(version)
        )
        if self._is_missing(result):
            return Versioned(None, 0)
        return Versioned(take(value.value, length.value), version.value)

    def set(self, key: Key, value: Value, ttl_ms: int = 0) -> None:
        """Store a value. It returns when the server has acknowledged it.

        With `ttl_ms`, the key is missing after this many milliseconds (1 to 2**32 - 1).
        """
        if ttl_ms:
            return self.set_many({key: value}, ttl_ms)
        name, source = key_bytes(key), Source(value)
        self._check(self._library.kv_setn(self._open(), name, len(name), source.address, source.length))

    def delete(self, key: Key) -> bool:
        """Delete a key; False: it was missing."""
        name = key_bytes(key)
        return not self._is_missing(self._library.kv_deleten(self._open(), name, len(name)))

    def set_if(self, key: Key, value: Value, version: int) -> int:
        """Store a value if the key has this version; 0: if it is missing. Return the new version.

        KvError with the code CHANGED: the key has another version.
        """
        name, source, seen = key_bytes(key), Source(value), ctypes.c_ulonglong(version)
        self._check(
            self._library.kv_cas(self._open(), name, len(name), source.address, source.length, ctypes.byref(seen))
        )
        return seen.value

    def delete_if(self, key: Key, version: int) -> None:
        """Delete a key if it has this version."""
        name, seen = key_bytes(key), ctypes.c_ulonglong(version)
        self._check(self._library.kv_del_if(self._open(), name, len(name), ctypes.byref(seen)))

    def get_many(self, keys: Iterable[Key]) -> list[memoryview | None]:
        """Return the values of many keys, with None for each that is missing.

        KvError: a GET failed; the values of the others are dropped.
        """
        names = [key_bytes(key) for key in keys]
        ops = (Op * len(names))()
        for op, name in zip(ops, names, strict=True):
            op.size, op.kind, op.key, op.key_length = ctypes.sizeof(Op), GET, name, len(name)
        result = self._library.kv_mget(self._open(), ops, len(names))
        values = [take(op.value, op.value_length) if op.result == Result.OK else None for op in ops]
        self._check(result)
        return values

    def set_many(self, values: Mapping[Key, Value], ttl_ms: int = 0) -> None:
        """Store many values at once. KvError: a SET failed; the others were made all the same."""
        ttl = ttl_of(ttl_ms)
        names = [key_bytes(key) for key in values]
        sources = [Source(value) for value in values.values()]
        ops = (Op * len(names))()
        for op, name, source in zip(ops, names, sources, strict=True):
            op.size, op.kind, op.key, op.key_length = ctypes.sizeof(Op), SET, name, len(name)
            op.value, op.value_length, op.ttl_ms = source.address, source.length, ttl
        self._check(self._library.kv_do(self._open(), ops, len(names)))

    def scan(self, prefix: Key = b"") -> Iterator[bytes]:
        """Yield the keys that begin with the prefix, in no order; a key may come more than once.

        A key that is there throughout comes. KvError: a server cannot be asked.
        """
        name, cursor = key_bytes(prefix), Cursor()
        keys, count = ctypes.POINTER(KeyText)(), ctypes.c_size_t()
        while not cursor.done:
            self._check(
                self._library.kv_scan(self._open(), cursor, name, len(name), 0, ctypes.byref(keys), ctypes.byref(count))
            )
            yield from take_keys(keys, count.value)

    def watch(self, key: Key, *, prefix: bool = False) -> Watcher:
        """Return the events of this key, or of all keys that begin with it. At most 256 at once.

        The first one is LOOK_AGAIN. KvError while they are taken: a server is too old.
        """
        watcher = Watcher(self._open(), key, prefix, self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    def close(self) -> None:
        """Close the connections. Values that were fetched stay valid."""
        handle, self._handle = self._handle, None
        for watcher in self._watchers:
            watcher.ended()
        self._watchers.clear()
        if handle is not None:
            self._library.kv_close(handle)

    def _open(self) -> int:
        if self._handle is None:
            raise KvError(Result.INVALID, "the store is closed")
        return self._handle

    def _check(self, result: int) -> None:
        if result != Result.OK:
            raise KvError(result, self._library.kv_last_error(self._handle).decode())

    def _is_missing(self, result: int) -> bool:
        if result != Result.MISSING:
            self._check(result)
        return bool(result == Result.MISSING)
