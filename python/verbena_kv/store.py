# SPDX-License-Identifier: Apache-2.0
"""The store for programs that wait for each call."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from .closing import ClosedAtExit, Guarded, warn_of_unclosed
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
    check,
    key_bytes,
    library,
    take,
    take_keys,
    ttl_of,
    version_of,
)
from .watch import Watcher

TIMEOUT_MAX_S = 2147483.647  # kv_options.timeout_ms is an int
LANES_MAX = 64


class Versioned(NamedTuple):
    """A value with its version; a missing key has the value None and the version 0."""

    value: memoryview | None
    version: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a client; those of struct kv_options in verbena/kv.h.

    ValueError: a number is out of range, or a text has a NUL byte.
    """

    timeout: float | None = 10.0  # seconds for each operation, up to 2147483.647; None: no limit
    transport: str = "rdma"  # or "tcp"
    protocol: str = "auto"  # or "eager", "rndv"
    insecure: bool = False  # authenticate no peer, and do not encrypt the set-up
    ca: str = ""  # names of PEM files
    certificate: str = ""
    key: str = ""
    device: str = ""  # name of the RDMA device; the default is the best one
    one_sided: bool = False  # GETs read published values by RDMA READ alone
    retry: bool = True  # an operation is sent again when its connection is lost
    lanes: int = 1  # threads that do not wait for each other, up to 64
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
            elif isinstance(value, str) and "\0" in value:
                raise ValueError(f"Settings: {each.name} has a NUL byte: {value!r}")
        if self.timeout is not None and not 0 < self.timeout <= TIMEOUT_MAX_S:
            raise ValueError(f"Settings: timeout must be above 0 and at most {TIMEOUT_MAX_S} s, not {self.timeout!r}")
        if not 1 <= self.lanes <= LANES_MAX:
            raise ValueError(f"Settings: lanes must be 1 to {LANES_MAX}, not {self.lanes!r}")


def checked(servers: str, settings: Settings | None) -> tuple[str, Settings]:
    """Return what a constructor was given. TypeError, ValueError: it is something else."""
    if not isinstance(servers, str):
        raise TypeError(f'servers must be a str such as "10.0.0.1" or "a:7472,b:7472", not {servers!r}')
    if "\0" in servers:
        raise ValueError(f"servers has a NUL byte: {servers!r}")
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
    """A client of one server or several, from construction to close(); also a context manager.

    A store that is dropped without close() is closed, with a ResourceWarning.
    """

    def __init__(self, servers: str, settings: Settings | None = None) -> None:
        """Connect to "host[:port]", a list of these with commas, or an etcd prefix.

        "etcd://HOST:2379/PREFIX", or "etcds://HOST:2379,HOST:2379/PREFIX" with TLS.
        """
        self._library = library()
        self._handle = Guarded(open_handle(*checked(servers, settings)), self._library.kv_close, "the store")

    def get(self, key: Key) -> memoryview | None:
        """Return the value, or None if the key is missing."""
        name, value, length = key_bytes(key), ctypes.c_void_p(), ctypes.c_size_t()
        with self._handle as handle:
            result = self._library.kv_getn(handle, name, len(name), ctypes.byref(value), ctypes.byref(length))
            return None if is_missing(handle, result) else take(value.value, length.value)

    def get_version(self, key: Key) -> Versioned:
        """Return the value and its version."""
        name, value, length, version = key_bytes(key), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_ulonglong()
        with self._handle as handle:
            result = self._library.kv_get_version(
                handle, name, len(name), ctypes.byref(value), ctypes.byref(length), ctypes.byref(version)
            )
            if is_missing(handle, result):
                return Versioned(None, 0)
        return Versioned(take(value.value, length.value), version.value)

    def set(self, key: Key, value: Value, ttl_ms: int = 0) -> None:
        """Store a value. It returns when the server has acknowledged it.

        With `ttl_ms`, the key is missing after this many milliseconds (1 to 2**32 - 1).
        """
        if ttl_ms:
            return self.set_many({key: value}, ttl_ms)
        name, source = key_bytes(key), Source(value)
        with self._handle as handle:
            check(handle, self._library.kv_setn(handle, name, len(name), source.address, source.length))

    def delete(self, key: Key) -> bool:
        """Delete a key; False: it was missing."""
        name = key_bytes(key)
        with self._handle as handle:
            return not is_missing(handle, self._library.kv_deleten(handle, name, len(name)))

    def set_if(self, key: Key, value: Value, version: int) -> int:
        """Store a value if the key has this version; 0: if it is missing. Return the new version.

        KvError with the code CHANGED: the key has another version. ValueError: no key can have it.
        """
        name, source, seen = key_bytes(key), Source(value), ctypes.c_ulonglong(version_of(version))
        with self._handle as handle:
            result = self._library.kv_cas(handle, name, len(name), source.address, source.length, ctypes.byref(seen))
            check(handle, result)
        return seen.value

    def delete_if(self, key: Key, version: int) -> None:
        """Delete a key if it has this version."""
        name, seen = key_bytes(key), ctypes.c_ulonglong(version_of(version))
        with self._handle as handle:
            check(handle, self._library.kv_del_if(handle, name, len(name), ctypes.byref(seen)))

    def get_many(self, keys: Iterable[Key]) -> list[memoryview | None]:
        """Return the values of many keys, with None for each that is missing.

        KvError: a GET failed; the values of the others are dropped.
        """
        names = [key_bytes(key) for key in keys]
        ops = (Op * len(names))()
        for op, name in zip(ops, names, strict=True):
            op.size, op.kind, op.key, op.key_length = ctypes.sizeof(Op), GET, name, len(name)
        with self._handle as handle:
            result = self._library.kv_mget(handle, ops, len(names))
            values = [take(op.value, op.value_length) if op.result == Result.OK else None for op in ops]
            check(handle, result)
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
        with self._handle as handle:
            check(handle, self._library.kv_do(handle, ops, len(names)))

    def scan(self, prefix: Key = b"") -> Iterator[bytes]:
        """Yield the keys that begin with the prefix, in no order; a key may come more than once.

        A key that is there throughout comes. KvError: a server cannot be asked.
        """
        name, cursor = key_bytes(prefix), Cursor()
        keys, count = ctypes.POINTER(KeyText)(), ctypes.c_size_t()
        while not cursor.done:
            with self._handle as handle:
                result = self._library.kv_scan(
                    handle, cursor, name, len(name), 0, ctypes.byref(keys), ctypes.byref(count)
                )
                check(handle, result)
            yield from take_keys(keys, count.value)

    def watch(self, key: Key, *, prefix: bool = False) -> Watcher:
        """Return the events of this key, or of all keys that begin with it. At most 256 at once.

        The first one is LOOK_AGAIN. KvError while they are taken: a server is too old.
        """
        return Watcher(self._handle, key, prefix, self)

    def close(self) -> None:
        """Wait for the calls of other threads, and close the connections. Values stay valid.

        A call that begins later is a KvError (INVALID), and a watcher ends.
        """
        self._handle.close()

    def __del__(self) -> None:
        handle: Guarded | None = getattr(self, "_handle", None)  # None: the constructor failed
        if handle is not None and handle.is_open_here():
            try:
                warn_of_unclosed(self)
            finally:
                handle.close()


def is_missing(handle: int, result: int) -> bool:
    """Return whether a call found no key. KvError: it failed."""
    if result != Result.MISSING:
        check(handle, result)
    return bool(result == Result.MISSING)
