# SPDX-License-Identifier: Apache-2.0
"""Events: what happens to a key, or to all keys that begin with a prefix."""

import asyncio
import ctypes
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import IntEnum
from types import TracebackType
from typing import NamedTuple, Self

from .errors import KvError, Result
from .library import WATCH_PREFIX, EventText, Key, key_bytes, library

PATIENCE_S = 0.25  # one call of the library takes no longer, so that Ctrl-C is heard


class EventKind(IntEnum):
    """A kind of event (verbena/kv.h, enum kv_event_kind)."""

    SET = 1
    DELETED = 2
    EXPIRED = 3
    EVICTED = 4
    LOOK_AGAIN = 5


class Event(NamedTuple):
    """A change of a key.

    LOOK_AGAIN has no key: the watch has begun, or events may have been missed. Look at the keys
    yourself; changes that you do not see so have events after this one.
    """

    kind: EventKind
    key: bytes
    version: int


class _Watched:
    """A watcher of the library."""

    def __init__(self, handle: int, key: Key, prefix: bool) -> None:
        name, watcher = key_bytes(key), ctypes.c_void_p()
        result = library().kv_watch(handle, name, len(name), WATCH_PREFIX if prefix else 0, ctypes.byref(watcher))
        self._handle = handle
        self.watcher = watcher.value
        self._check(result)

    def take(self, timeout_ms: int) -> list[Event]:
        """Return the events that have come within this time."""
        events, count = ctypes.POINTER(EventText)(), ctypes.c_size_t()
        if self.watcher is None:
            return []
        self._check(library().kv_next_events(self.watcher, ctypes.byref(events), ctypes.byref(count), timeout_ms))
        return [
            Event(EventKind(each.kind), ctypes.string_at(each.key, each.key_length), each.version)
            for each in events[: count.value]
        ]

    def end(self) -> None:
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            library().kv_unwatch(watcher)

    def _check(self, result: int) -> None:
        if result != Result.OK:
            raise KvError(result, library().kv_last_error(self._handle).decode())


class Watcher:
    """The events of Store.watch(), for `for`; also a context manager.

    One thread at a time may use it; the store's other calls wait while it waits, unless the store
    has more lanes and they are of other threads.
    """

    def __init__(self, handle: int, key: Key, prefix: bool, forget: "Callable[[Watcher], None]") -> None:
        """Use Store.watch() instead."""
        self._watched = _Watched(handle, key, prefix)
        self._forget = forget
        self._waiting: deque[Event] = deque()

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after this many seconds, or when the watcher is closed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._waiting and self._watched.watcher is not None:
            left = PATIENCE_S if end is None else min(PATIENCE_S, max(0.0, end - time.monotonic()))
            self._waiting.extend(self._watched.take(round(left * 1000)))
            if left == 0:
                break
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """End the watching. Events that have come can still be taken."""
        self._watched.end()
        self._forget(self)

    def ended(self) -> None:
        """The store is closed, and with it the library's watcher."""
        self._watched.watcher = None

    def __iter__(self) -> Iterator[Event]:
        while (event := self.get()) is not None:
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncWatcher:
    """The events of AsyncStore.watch(), for `async for`; also a context manager."""

    def __init__(self, handle: int, key: Key, prefix: bool, forget: "Callable[[AsyncWatcher], None]") -> None:
        """Use AsyncStore.watch() instead."""
        self._watched = _Watched(handle, key, prefix)
        self._forget = forget
        self._waiting: deque[Event] = deque()
        self._error: KvError | None = None
        self._changed = asyncio.Event()

    async def get(self) -> Event | None:
        """Return the next event; None if the watcher is closed."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._watched.watcher is None:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def progress(self) -> None:
        """Take what has come; the store calls it."""
        try:
            self._waiting.extend(self._watched.take(0))
        except KvError as error:
            self._error = error
            self._watched.end()
        if self._waiting or self._error:
            self._changed.set()

    def close(self) -> None:
        """End the watching. Events that have come can still be taken."""
        self._watched.end()
        self._forget(self)
        self._changed.set()

    def ended(self) -> None:
        """The store is closed, and with it the library's watcher."""
        self._watched.watcher = None
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
