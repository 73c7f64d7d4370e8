# SPDX-License-Identifier: Apache-2.0
"""Events: what happens to a key, or to all keys that begin with a prefix."""

import asyncio
import ctypes
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from .closing import ClosedAtExit
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

    @classmethod
    def _missing_(cls, value: object) -> "EventKind":
        """A kind of a later version of the library: the key may have changed in any way."""
        return cls.LOOK_AGAIN


class Event(NamedTuple):
    """A change of a key.

    LOOK_AGAIN has no key: the watch has begun, or events may have been missed. Look at the keys
    yourself; changes that you do not see so have events after this one.
    """

    kind: EventKind
    key: bytes
    version: int


class _Watched(ClosedAtExit):
    """A watcher of the library, with the events that have come and were not returned yet."""

    def __init__(self, handle: int, key: Key, prefix: bool, forget: Callable[[Any], None]) -> None:
        """Use the watch() of a store instead."""
        name, watcher = key_bytes(key), ctypes.c_void_p()
        result = library().kv_watch(handle, name, len(name), WATCH_PREFIX if prefix else 0, ctypes.byref(watcher))
        self._handle = handle
        self._forget = forget
        self._watcher = watcher.value  # None: it is closed
        self._waiting: deque[Event] = deque()
        self._check(result)

    def close(self) -> None:
        """End the watching. Events that have come can still be taken."""
        watcher = self._watcher
        if watcher is not None:
            library().kv_unwatch(watcher)
            self.ended()
        self._forget(self)

    def ended(self) -> None:
        """The library's watcher is gone, with its store or by itself."""
        self._watcher = None

    def _take(self, timeout_ms: int) -> None:
        """Wait for events for this time, and keep them. The watcher is not closed."""
        events, count = ctypes.POINTER(EventText)(), ctypes.c_size_t()
        self._check(library().kv_next_events(self._watcher, ctypes.byref(events), ctypes.byref(count), timeout_ms))
        self._waiting.extend(
            Event(EventKind(each.kind), ctypes.string_at(each.key, each.key_length), each.version)
            for each in events[: count.value]
        )

    def _check(self, result: int) -> None:
        if result != Result.OK:
            raise KvError(result, library().kv_last_error(self._handle).decode())


class Watcher(_Watched):
    """The events of Store.watch(), for `for`; also a context manager.

    One thread at a time may use it; the store's other calls wait while it waits, unless the store
    has more lanes and they are of other threads.
    """

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after this many seconds, or when the watcher is closed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._waiting and self._watcher is not None:
            left = PATIENCE_S if end is None else min(PATIENCE_S, max(0.0, end - time.monotonic()))
            self._take(round(left * 1000))
            if left == 0:
                break
        return self._waiting.popleft() if self._waiting else None

    def __iter__(self) -> Iterator[Event]:
        while (event := self.get()) is not None:
            yield event


class AsyncWatcher(_Watched):
    """The events of AsyncStore.watch(), for `async for`; also a context manager."""

    def __init__(self, handle: int, key: Key, prefix: bool, forget: Callable[[Any], None]) -> None:
        """Use AsyncStore.watch() instead."""
        super().__init__(handle, key, prefix, forget)
        self._error: KvError | None = None
        self._changed = asyncio.Event()

    async def get(self) -> Event | None:
        """Return the next event; None if the watcher is closed."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._watcher is None:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def progress(self) -> None:
        """Take what has come; the store calls it."""
        if self._watcher is None or self._error is not None:
            return
        try:
            self._take(0)
        except KvError as error:
            self._error = error
        if self._waiting or self._error:
            self._changed.set()

    def ended(self) -> None:
        super().ended()
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event
