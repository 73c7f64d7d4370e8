# SPDX-License-Identifier: Apache-2.0
"""The functions of libverbena-kv.so.0 by ctypes, and values in its memory."""

import ctypes
import os
import weakref
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from functools import cache
from operator import index
from pathlib import Path
from typing import TypeAlias

from .errors import KvError, Result

NAME = "libverbena-kv.so.0"
GET, SET, DEL, SCAN = 1, 2, 3, 4
VERSION = 1  # KV_OP_VERSION
WATCH_PREFIX = 1  # KV_WATCH_PREFIX
UNDER_WAY_MAX = 4096

Key: TypeAlias = "str | bytes"
Value: TypeAlias = "bytes | bytearray | memoryview"


class Options(Structure):
    """The structure kv_options."""

    _fields_ = (
        ("size", c_size_t),
        ("insecure", c_int),
        ("ca", c_char_p),
        ("certificate", c_char_p),
        ("key", c_char_p),
        ("transport", c_char_p),
        ("protocol", c_char_p),
        ("rendezvous", c_char_p),
        ("eager_max", c_size_t),
        ("device", c_char_p),
        ("one_sided", c_int),
        ("timeout_ms", c_int),
        ("no_retry", c_int),
        ("lanes", c_size_t),
        ("etcd_ca", c_char_p),
        ("etcd_certificate", c_char_p),
        ("etcd_key", c_char_p),
        ("etcd_user", c_char_p),
        ("etcd_password_file", c_char_p),
    )


class Cursor(Structure):
    """The structure kv_cursor; all bytes 0: the begin."""

    _fields_ = (
        ("server", c_ulonglong),
        ("walk", c_ulonglong),
        ("position", c_ulonglong),
        ("done", c_int),
        ("reserved", c_int),
    )


class Op(Structure):
    """The structure kv_op."""

    _fields_ = (
        ("size", c_size_t),
        ("kind", c_int),
        ("flags", c_uint),
        ("key", c_char_p),
        ("key_length", c_size_t),
        ("value", c_void_p),
        ("value_length", c_size_t),
        ("version", c_ulonglong),
        ("ttl_ms", c_uint),
        ("result", c_int),
        ("user", c_void_p),
        ("cursor", POINTER(Cursor)),
    )


class KeyText(Structure):
    """The structure kv_key."""

    _fields_ = (("key", c_void_p), ("key_length", c_size_t))


class EventText(Structure):
    """The structure kv_event."""

    _fields_ = (
        ("kind", c_int),
        ("reserved", c_int),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("version", c_ulonglong),
    )


FUNCTIONS = {
    "kv_open_with": (c_int, (c_char_p, POINTER(Options), POINTER(c_void_p))),
    "kv_close": (c_int, (c_void_p,)),
    "kv_submit": (c_int, (c_void_p, POINTER(Op), c_int)),
    "kv_wait": (c_int, (c_void_p, POINTER(POINTER(Op)), c_int, c_int, c_int)),
    "kv_do": (c_int, (c_void_p, POINTER(Op), c_int)),
    "kv_mget": (c_int, (c_void_p, POINTER(Op), c_int)),
    "kv_getn": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t))),
    "kv_get_version": (
        c_int,
        (c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_ulonglong)),
    ),
    "kv_setn": (c_int, (c_void_p, c_char_p, c_size_t, c_void_p, c_size_t)),
    "kv_cas": (c_int, (c_void_p, c_char_p, c_size_t, c_void_p, c_size_t, POINTER(c_ulonglong))),
    "kv_deleten": (c_int, (c_void_p, c_char_p, c_size_t)),
    "kv_del_if": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(c_ulonglong))),
    "kv_scan": (
        c_int,
        (c_void_p, POINTER(Cursor), c_char_p, c_size_t, c_size_t, POINTER(POINTER(KeyText)), POINTER(c_size_t)),
    ),
    "kv_watch": (c_int, (c_void_p, c_char_p, c_size_t, c_uint, POINTER(c_void_p))),
    "kv_next_events": (c_int, (c_void_p, POINTER(POINTER(EventText)), POINTER(c_size_t), c_int)),
    "kv_unwatch": (c_int, (c_void_p,)),
    "kv_fd": (c_int, (c_void_p,)),
    "kv_release": (None, (c_void_p,)),
    "kv_last_error": (c_char_p, (c_void_p,)),
    "kv_strerror": (c_char_p, (c_int,)),
}


def found_from(package: Path) -> str | None:
    """Return the library in the folder of this package, or in the library folders of its prefix.

    `cmake --install` and packages put this package below PREFIX/lib, and the library into
    PREFIX/lib, PREFIX/lib64 or, as Debian does, PREFIX/lib/x86_64-linux-gnu.
    """
    folders = [package]
    for above in package.parents:
        if above.name in ("lib", "lib64"):
            folders += [above, above.parent / "lib64", above.parent / "lib"]
            folders += sorted((above.parent / "lib").glob("*-linux-gnu*"))
            break
    return next((str(folder / NAME) for folder in folders if (folder / NAME).exists()), None)


@cache
def library() -> ctypes.CDLL:
    """Load the library. ImportError says where it was sought."""
    name = os.environ.get("VERBENA_KV_LIBRARY") or found_from(Path(__file__).parent) or NAME
    try:
        loaded = ctypes.CDLL(name)
        for function, (result, arguments) in FUNCTIONS.items():
            declared = getattr(loaded, function)
            declared.restype, declared.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"{error}: install Debian's package libverbena-kv0, or set VERBENA_KV_LIBRARY") from error
    return loaded


def check(handle: int, result: int) -> None:
    """Raise KvError if a call with this handle, which is still open, has failed."""
    if result != Result.OK:
        raise KvError(result, library().kv_last_error(handle).decode())


def key_bytes(key: Key) -> bytes:
    """Return the bytes of a key. TypeError: it is something else."""
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, bytes):
        raise TypeError(f"a key must be str or bytes, not {type(key).__name__}")
    return key


def ttl_of(milliseconds: int) -> int:
    """Return a time to live as the library takes it. ValueError: it is out of range."""
    milliseconds = index(milliseconds)
    if not 0 <= milliseconds < 1 << 32:
        raise ValueError(f"a time to live of {milliseconds} ms is not in 1 to {(1 << 32) - 1}, nor 0 for none")
    return milliseconds


def version_of(version: int) -> int:
    """Return an expected version as the library takes it. ValueError: no key can have it."""
    version = index(version)
    if not 0 <= version < (1 << 64) - 1:
        raise ValueError(f"a version of {version} is not in 0 to 2**64 - 2")
    return version


class Source:
    """The bytes of a SET: their address, and what keeps them in place.

    A view that is read-only, or not contiguous, is copied.
    """

    def __init__(self, value: Value) -> None:
        view = memoryview(value)
        self.length = view.nbytes
        self.address: int | None = None
        if self.length == 0:
            return
        if isinstance(value, bytes) or view.readonly or not view.c_contiguous:
            copy = value if isinstance(value, bytes) else view.tobytes()
            self.address = ctypes.cast(c_char_p(copy), c_void_p).value
            self._keep: object = copy
        else:
            array = (c_ubyte * self.length).from_buffer(view.cast("B"))
            self.address = ctypes.addressof(array)
            self._keep = array


def take_keys(keys: object, count: int) -> list[bytes]:
    """Copy an array of KeyText that the library has given, and free it. `keys` is its pointer."""
    array = ctypes.cast(keys, POINTER(KeyText))  # type: ignore[arg-type]
    page = [ctypes.string_at(array[i].key, array[i].key_length) for i in range(count)]
    library().kv_release(keys)
    return page


def take(address: int | None, length: int) -> memoryview:
    """Become the owner of a value that the library has given. The last view of it frees it.

    Only in this process: a child of a fork does not inherit the memory of large values.
    """
    if address is None or length == 0:
        library().kv_release(address)
        return memoryview(b"")
    array = (c_ubyte * length).from_address(address)
    # At the end of the program nothing needs to be freed, and views may still be used.
    weakref.finalize(array, _release, address, os.getpid()).atexit = False
    return memoryview(array).cast("B")


def _release(address: int, process: int) -> None:
    """Free a value, unless this is a child of the process that has it."""
    if os.getpid() == process:
        library().kv_release(address)
