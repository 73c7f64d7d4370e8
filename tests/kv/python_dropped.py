# SPDX-License-Identifier: Apache-2.0
"""python_dropped.py SERVER: drops stores without close(), and prints "all good"."""

import asyncio
import gc
import os
import sys
import warnings
from collections.abc import Callable

from verbena_kv import AsyncStore, Event, EventKind, KvError, Settings, Store

SERVER = sys.argv[1]


def warnings_of(call: Callable[[], object]) -> int:
    """Return the number of warnings; all of them are of stores that were not closed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
        gc.collect()
    for each in caught:
        assert each.category is ResourceWarning and str(each.message).startswith("unclosed <verbena_kv."), each
    return len(caught)


def drop() -> None:
    store = Store(SERVER, Settings(lanes=2))
    store.set("key", b"value")


def close() -> None:
    with Store(SERVER) as store:
        store.set("key", b"value")


def fail() -> None:
    try:
        Store("127.0.0.1:1")
        raise AssertionError("there is no server")
    except KvError:
        pass


def watch_alone() -> None:
    """A watcher keeps its store."""
    watcher = Store(SERVER).watch("key")
    gc.collect()
    assert watcher.get(10) == Event(EventKind.LOOK_AGAIN, b"", 0)
    with Store(SERVER) as other:
        other.set("key", b"value")
    event = watcher.get(10)
    assert event is not None and event.kind == EventKind.SET


def drop_in_a_child() -> None:
    """The store is that of the parent, so the child closes nothing."""
    store = Store(SERVER)
    child = os.fork()
    if child == 0:
        count = len(os.listdir("/proc/self/fd"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del store
            gc.collect()
        os._exit(0 if not caught and len(os.listdir("/proc/self/fd")) == count else 1)
    assert os.waitpid(child, 0)[1] == 0
    store.set("key", b"value")
    store.close()


async def used() -> AsyncStore:
    store = await AsyncStore.open(SERVER)
    await store.set("key", b"value")
    return store


async def left_in_the_middle() -> None:
    store = await AsyncStore.open(SERVER)
    task = asyncio.create_task(store.get("key"))
    await asyncio.sleep(0)  # it begins
    task.cancel()


close()  # the library has opened its own descriptors now
before = len(os.listdir("/proc/self/fd"))
assert warnings_of(drop) == 1
assert warnings_of(close) == 0
assert warnings_of(fail) == 0
assert warnings_of(watch_alone) == 1
assert warnings_of(drop_in_a_child) == 0
assert warnings_of(lambda: asyncio.run(used())) == 1
assert len(os.listdir("/proc/self/fd")) == before
assert warnings_of(lambda: asyncio.run(left_in_the_middle())) == 1
print("all good")
