# SPDX-License-Identifier: Apache-2.0
"""Events: what happens to a key, or to all keys that begin with a prefix."""

import asyncio
import ctypes
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from .closing import ClosedAtExit, Guarded
from .errors import KvError
from .library import WATCH_PREFIX, EventText, Key, check, key_bytes, library

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

    def __init__(self, store: Guarded, key: Key, prefix: bool) -> None:
        """Use the watch() of a store instead."""
        name, watcher = key_bytes(key), ctypes.c_void_p()
        with store as handle:
            flags = WATCH_PREFIX if prefix else 0
            check(handle, library().kv_watch(handle, name, len(name), flags, ctypes.byref(watcher)))
        assert watcher.value is not None
        self._store = store
        self._watcher = Guarded(watcher.value, partial(_unwatch, store), "the watcher")
        self._waiting: deque[Event] = deque()

    def close(self) -> None:
        """End the watching. Events that have come can still be taken."""
        self._watcher.close()

    def _is_closed(self) -> bool:
        """Return whether no event comes any more: it is closed, or its store is."""
        return self._watcher.is_closed or self._store.is_closed

    def _take(self, timeout_ms: int) -> None:
        """Wait for events for this time, and keep them. KvError: also if it is closed."""
        events, count = ctypes.POINTER(EventText)(), ctypes.c_size_t()
        with self._store as handle, self._watcher as watcher:
            check(handle, library().kv_next_events(watcher, ctypes.byref(events), ctypes.byref(count), timeout_ms))
            self._waiting.extend(
                Event(EventKind(each.kind), ctypes.string_at(each.key, each.key_length), each.version)
                for each in events[: count.value]
            )


def _unwatch(store: Guarded, watcher: int) -> None:
    """Free a watcher of the library. A store that is closed has done so, or is about to."""
    with suppress(KvError), store:
        library().kv_unwatch(watcher)


class Watcher(_Watched):
    """The events of Store.watch(), for `for`; also a context manager.

    One thread at a time may use it, and any thread may close it or its store, which ends the loop.
    The store's other calls wait while it waits, unless the store has more lanes and they are of
    other threads.
    """

    def __init__(self, store: Guarded, key: Key, prefix: bool, owner: object) -> None:
        """Use Store.watch() instead. `owner` is the store, which closes when it is dropped."""
        super().__init__(store, key, prefix)
        self._owner = owner

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after this many seconds, or when the watcher is closed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._waiting and not self._is_closed():
            left = PATIENCE_S if end is None else min(PATIENCE_S, max(0.0, end - time.monotonic()))
            try:
                self._take(round(left * 1000))
            except KvError:
                if not self._is_closed():  # by another thread
                    raise
            if left == 0:
                break
        return self._waiting.popleft() if self._waiting else None

    def __iter__(self) -> Iterator[Event]:
        while (event := self.get()) is not None:
            yield event


class AsyncWatcher(_Watched):
    """The events of AsyncStore.watch(), for `async for`; also a context manager."""

    def __init__(self, store: Guarded, key: Key, prefix: bool, forget: Callable[["AsyncWatcher"], None]) -> None:
        """Use AsyncStore.watch() instead."""
        super().__init__(store, key, prefix)
        self._forget = forget
        self._error: KvError | None = None
        self._changed = asyncio.Event()

    def close(self) -> None:
        super().close()
        self.ended()
        self._forget(self)

    async def get(self) -> Event | None:
        """Return the next event; None if the watcher is closed."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_closed():
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def progress(self) -> None:
        """Take what has come; the store calls it."""
        if self._is_closed() or self._error is not None:
            return
        try:
            self._take(0)
        except KvError as error:
            self._error = error
        if self._waiting or self._error:
            self._changed.set()

    def ended(self) -> None:
        """Wake the tasks that wait: it is closed, or its store is."""
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event
