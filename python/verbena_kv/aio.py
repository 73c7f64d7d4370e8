# SPDX-License-Identifier: Apache-2.0
"""The store for programs on asyncio: any number of operations are under way, without a thread."""

import asyncio
import ctypes
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from .closing import Guarded, warn_of_unclosed
from .errors import KvError, Result
from .library import (
    DEL,
    GET,
    SCAN,
    SET,
    UNDER_WAY_MAX,
    VERSION,
    Cursor,
    Key,
    Op,
    Source,
    Value,
    key_bytes,
    library,
    take,
    take_keys,
    ttl_of,
    version_of,
)
from .store import Settings, Versioned, checked, open_handle
from .watch import AsyncWatcher

TAKEN_AT_ONCE = 256


class _Outcome(NamedTuple):
    is_missing: bool
    value: memoryview | None
    version: int
    keys: list[bytes]  # the page of a scan()


@dataclass
class _Request:
    """An operation, and what must stay in its place until it is done."""

    kind: int
    name: bytes
    source: Source | None
    version: int | None  # None: without one
    done: "asyncio.Future[_Outcome]"
    ttl_ms: int = 0  # a SET's
    cursor: Cursor | None = None  # the page of a scan()
    ops: object = None  # the array that has its structure

    def fill(self, op: Op) -> None:
        op.size, op.kind, op.key, op.key_length = ctypes.sizeof(Op), self.kind, self.name, len(self.name)
        if self.source is not None:
            op.value, op.value_length, op.ttl_ms = self.source.address, self.source.length, self.ttl_ms
        if self.version is not None:
            op.flags, op.version = VERSION, self.version
        if self.cursor is not None:
            op.cursor = ctypes.pointer(self.cursor)

    def finish(self, op: Op) -> None:
        """Give the result to the task that waits for it, if it still does."""
        value = take(op.value, op.value_length) if self.kind == GET and op.result == Result.OK else None
        keys = take_keys(op.value, op.value_length) if self.kind == SCAN and op.result == Result.OK else []
        if self.done.done():
            return
        if op.result in (Result.OK, Result.MISSING):
            self.done.set_result(_Outcome(op.result == Result.MISSING, value, op.version, keys))
        else:
            self.done.set_exception(KvError(op.result, library().kv_strerror(op.result).decode()))


class _Opening:
    """A handle that a thread opens. The task that waits for it may be cancelled before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._is_unwanted = False

    def open(self, servers: str, settings: Settings) -> int:
        """Connect; called in the thread."""
        handle = open_handle(servers, settings)
        with self._lock:
            self._handle = handle
            is_unwanted = self._is_unwanted
        if is_unwanted:
            library().kv_close(handle)
        return handle

    def cancel(self) -> None:
        """Close the handle that is open, or will be."""
        with self._lock:
            self._is_unwanted = True
            handle = self._handle
        if handle is not None:
            library().kv_close(handle)


class AsyncStore:
    """A client of one server or several, which `async with` or open() connects.

    Operations that tasks begin in one turn of the event loop leave together. A task that is
    cancelled stops waiting; its operation may be made all the same. A store that is dropped with
    its event loop is closed, unless operations are under way, with a ResourceWarning.
    RuntimeError: an operation before the store is connected.
    """

    def __init__(self, servers: str, settings: Settings | None = None) -> None:
        """Take the arguments of Store; nothing connects yet."""
        self._servers, self._settings = checked(servers, settings)
        if self._settings.lanes != 1:
            raise ValueError("an event loop uses one lane")
        self._library = library()
        self._is_begun = False  # the store connects, is connected, or was
        self._is_closing = False  # no operation begins any more
        self._handle: Guarded | None = None
        self._new: deque[_Request] = deque()  # not taken by the library yet
        self._under_way: dict[int, _Request] = {}  # by the address of the operation
        self._watchers: set[AsyncWatcher] = set()
        self._is_planned = False
        self._done = (ctypes.POINTER(Op) * TAKEN_AT_ONCE)()

    @classmethod
    async def open(cls, servers: str, settings: Settings | None = None) -> Self:
        """Connect; the event loop goes on meanwhile. The arguments are those of Store."""
        store = cls(servers, settings)
        await store._connect()
        return store

    async def get(self, key: Key) -> memoryview | None:
        """Return the value, or None if the key is missing."""
        return (await self._begin(GET, key)).value

    async def get_version(self, key: Key) -> Versioned:
        """Return the value and its version."""
        got = await self._begin(GET, key, version=0)
        return Versioned(got.value, got.version)

    async def get_many(self, keys: Iterable[Key]) -> list[memoryview | None]:
        """Return the values of many keys, with None for each that is missing."""
        return [each.value for each in await asyncio.gather(*[self._begin(GET, key) for key in keys])]

    async def set(self, key: Key, value: Value, ttl_ms: int = 0) -> None:
        """Store a value, whose bytes must not change until then. `ttl_ms` as in Store.set()."""
        await self._begin(SET, key, Source(value), ttl_ms=ttl_of(ttl_ms))

    async def delete(self, key: Key) -> bool:
        """Delete a key; False: it was missing."""
        return not (await self._begin(DEL, key)).is_missing

    async def set_if(self, key: Key, value: Value, version: int) -> int:
        """Store a value if the key has this version (0: is missing). Return the new version."""
        return (await self._begin(SET, key, Source(value), version)).version

    async def delete_if(self, key: Key, version: int) -> None:
        """Delete a key if it has this version."""
        await self._begin(DEL, key, version=version)

    async def scan(self, prefix: Key = b"") -> AsyncIterator[bytes]:
        """Yield the keys that begin with the prefix, as Store.scan() does."""
        cursor = Cursor()
        while not cursor.done:
            for key in (await self._begin(SCAN, prefix, cursor=cursor)).keys:
                yield key

    def watch(self, key: Key, *, prefix: bool = False) -> AsyncWatcher:
        """Return the events of this key, or of all keys that begin with it, as Store.watch()."""
        watcher = AsyncWatcher(self._open(), key, prefix, self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    async def close(self) -> None:
        """Wait for what is under way, and close the connections. Values stay valid.

        An operation that begins later is a KvError (INVALID). If this task is cancelled, what is
        under way goes on; call close() again.
        """
        self._is_closing = self._handle is not None
        while waiting := [each.done for each in (*self._new, *self._under_way.values()) if not each.done.done()]:
            await asyncio.wait(waiting)
        handle, self._handle = self._handle, None
        if handle is None:
            return
        self._loop.remove_reader(self._descriptor)
        # The operations of cancelled tasks are still under way. This call waits for them.
        handle.close()
        for watcher in self._watchers:
            watcher.ended()
        self._watchers.clear()
        for address, request in self._under_way.items():
            request.finish(Op.from_address(address))
        self._under_way.clear()

    def __del__(self) -> None:
        handle: Guarded | None = getattr(self, "_handle", None)  # None: not connected, or closed
        if handle is not None and handle.is_open_here():
            try:
                warn_of_unclosed(self)
            finally:
                if not self._under_way:  # else kv_close() would wait for a server
                    handle.close()

    async def __aenter__(self) -> Self:
        if not self._is_begun:
            await self._connect()
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connect(self) -> None:
        self._is_begun = True
        self._loop = asyncio.get_running_loop()
        opening = _Opening()
        try:
            handle = await asyncio.to_thread(opening.open, self._servers, self._settings)
        except BaseException as error:
            self._is_begun = False
            if isinstance(error, asyncio.CancelledError):
                opening.cancel()
            raise
        self._descriptor: int = self._library.kv_fd(handle)
        if self._descriptor < 0:
            message = self._library.kv_last_error(handle).decode()
            self._library.kv_close(handle)
            raise KvError(self._descriptor, message)
        self._handle = Guarded(handle, self._library.kv_close, "the store")
        self._loop.add_reader(self._descriptor, self._progress)

    def _open(self) -> Guarded:
        """Return the handle of a store that is connected."""
        if not self._is_begun:
            raise RuntimeError(
                "the store is not connected: use `async with AsyncStore(...) as store`, "
                "or `store = await AsyncStore.open(...)`"
            )
        if self._handle is None or self._is_closing:
            raise KvError(Result.INVALID, "the store is closed")
        return self._handle

    def _begin(
        self,
        kind: int,
        key: Key,
        source: Source | None = None,
        version: int | None = None,
        ttl_ms: int = 0,
        cursor: Cursor | None = None,
    ) -> "asyncio.Future[_Outcome]":
        self._open()
        expected = None if version is None else version_of(version)
        request = _Request(kind, key_bytes(key), source, expected, self._loop.create_future(), ttl_ms, cursor)
        self._new.append(request)
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._submit)
        return request.done

    def _submit(self) -> None:
        """Hand over what the tasks of this turn have begun, or as much as the library takes."""
        self._is_planned = False
        room = min(len(self._new), UNDER_WAY_MAX - len(self._under_way))
        if self._handle is None or room == 0:
            return
        ops = (Op * room)()
        for op, request in zip(ops, self._new, strict=False):
            request.fill(op)
        with self._handle as handle:
            taken = max(self._library.kv_submit(handle, ops, room), 0)
        for op in ops[:taken]:
            request = self._new.popleft()
            request.ops = ops
            self._under_way[ctypes.addressof(op)] = request

    def _progress(self) -> None:
        """Take what is done; the descriptor is readable."""
        while self._handle is not None:
            with self._handle as handle:
                count = self._library.kv_wait(handle, self._done, TAKEN_AT_ONCE, 0, 0)
            for i in range(count):
                op = self._done[i].contents
                self._under_way.pop(ctypes.addressof(op)).finish(op)
            if count < TAKEN_AT_ONCE:
                break
        for watcher in self._watchers:
            watcher.progress()
        self._submit()
