# SPDX-License-Identifier: Apache-2.0
"""python_client.py SERVER TRANSPORT: uses all of verbena_kv, and prints "all good"."""

import asyncio
import gc
import os
import sys
import threading
from typing import Any

from verbena_kv import AsyncStore, Event, EventKind, KvError, Result, Settings, Store

SERVER = sys.argv[1]
SETTINGS = Settings(transport=sys.argv[2], timeout=10, lanes=3)
ALONE = Settings(transport=sys.argv[2])
SIZES = (0, 1, 64, 3000, 5000, 100_000, 3_000_000)


def code_of(call: object, *arguments: object) -> int:
    try:
        call(*arguments)  # type: ignore[operator]
    except KvError as error:
        assert error.message
        return error.code
    return Result.OK


def calls(store: Store) -> None:
    for size in SIZES:
        value = bytes(i * 7 % 251 for i in range(min(size, 5000))) * (size // 5000 or 1)
        for given in (value, bytearray(value), memoryview(value)):
            store.set("key", given)
            got = store.get(b"key")
            assert got is not None and got.format == "B" and got == value, size
        store.set("again", got)  # from where it lies
        assert store.get("again") == value
    store.set("every second", memoryview(b"abcdef")[::2])
    assert store.get("every second") == b"ace"
    store.set(b"\0\xff", b"\0v\0")
    assert store.get(b"\0\xff") == b"\0v\0"
    assert store.get("none") is None and store.delete("key") and not store.delete("key")
    assert code_of(store.set, "", b"value") == Result.EMPTY_KEY
    assert code_of(store.get, "k" * 4097) == Result.LONG_KEY


def versions(store: Store) -> None:
    store.delete("v")
    assert store.get_version("v") == (None, 0)
    first = store.set_if("v", b"one", 0)
    assert store.get_version("v") == (b"one", first)
    assert code_of(store.set_if, "v", b"two", 0) == Result.CHANGED
    second = store.set_if("v", b"two", first)
    assert second > first and code_of(store.delete_if, "v", first) == Result.CHANGED
    store.delete_if("v", second)
    assert store.get("v") is None


WRONG_VERSIONS = (-1, (1 << 64) - 1, 1 << 64, (1 << 64) + 1)


def a_version_out_of_range_is_not_any_version(store: Store) -> None:
    """-1 became 2**64 - 1, with which the library changes a key of any version."""
    store.set("v", b"kept")
    for wrong in WRONG_VERSIONS:
        for call, arguments in ((store.set_if, ("v", b"lost", wrong)), (store.delete_if, ("v", wrong))):
            try:
                call(*arguments)  # type: ignore[operator]
                raise AssertionError(wrong)
            except ValueError as error:
                assert str(wrong) in str(error)
    assert code_of(store.set_if, "v", b"lost", (1 << 64) - 2) == Result.CHANGED
    assert store.get("v") == b"kept"
    store.delete("v")


def many(store: Store) -> None:
    assert store.get_many([]) == []
    values = {f"many {i}": b"v" * SIZES[i % 6] for i in range(500)}
    store.set_many(values)
    assert sorted(store.scan("many ")) == sorted(key.encode() for key in values)
    assert set(store.scan()) >= {b"many 1", b"\0\xff"} and list(store.scan("no such")) == []
    store.set("brief", b"value", ttl_ms=1)
    while store.get("brief") is not None:
        pass
    store.set("long", b"value", ttl_ms=60_000)
    assert store.get("long") == b"value"
    for wrong in (-1, 1 << 32):
        try:
            store.set("never", b"value", ttl_ms=wrong)
            raise AssertionError(wrong)
        except ValueError as error:
            assert str(wrong) in str(error)
    assert store.get_many([*values, "none"]) == [*values.values(), None]
    assert code_of(store.get_many, ["many 1", ""]) == Result.EMPTY_KEY
    assert code_of(store.set_many, {"many 1": b"x", "": b"y"}) == Result.EMPTY_KEY
    assert store.get("many 1") == b"x"


def kinds(events: "list[Event | None]") -> list[tuple[EventKind, bytes]]:
    return [(event.kind, event.key) for event in events if event is not None]


WATCHED = [(EventKind.SET, b"w:1"), (EventKind.SET, b"w:1"), (EventKind.EXPIRED, b"w:1"), (EventKind.SET, b"w:\xff")]


def watching(store: Store) -> None:
    with store.watch("w:", prefix=True) as watcher, store.watch(b"w:1") as one:
        for each in (watcher, one):
            assert each.get(10) == Event(EventKind.LOOK_AGAIN, b"", 0)
            assert each.get(0) is None and each.get(0.01) is None
        version = store.set_if("w:1", b"one", 0)
        store.set("w:1", b"two", ttl_ms=1)
        while store.get("w:1") is not None:
            pass
        events = [watcher.get(10) for _ in range(3)]
        store.set(b"w:\xff", b"")
        assert kinds([*events, watcher.get(10)]) == WATCHED and events[0] is not None and events[0].version == version
        assert kinds([one.get(10) for _ in range(3)]) == WATCHED[:3]
        assert one.get(0) is None
    assert list(watcher) == [] and code_of(store.watch, "") == Result.EMPTY_KEY
    with Store(SERVER, SETTINGS) as other:
        open_yet = other.watch("w:", prefix=True)
    assert open_yet.get() is None
    open_yet.close()


def a_value_outlives_its_store_and_its_first_view() -> None:
    with Store(SERVER, SETTINGS) as store:
        store.set("kept", b"0123456789" * 1000)
        kept = store.get("kept")
    assert kept is not None
    part = kept[10:20]
    del kept
    gc.collect()
    assert part == b"0123456789"
    assert code_of(store.get, "kept") == Result.INVALID
    store.close()


def threads(store: Store) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(200):
            store.set(f"{number} {i % 10}", f"{i}".encode())
            if store.get(f"{number} {i % 10}") != f"{i}".encode():
                wrong.append(f"{number} {i}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong


async def connected_late() -> None:
    """`async with` connects, once; a store that is closed does not connect again."""
    store = AsyncStore(SERVER, ALONE)
    await store.close()
    async with store:
        await store.set("late", b"value")
        async with store as same:
            assert same is store and await same.get("late") == b"value"
    for mistake in (store.get("late"), store.__aenter__()):
        try:
            await mistake
            raise AssertionError("the store is closed")
        except KvError as error:
            assert error.code == Result.INVALID
    nowhere = AsyncStore("127.0.0.1:1", ALONE)
    for _ in range(2):
        try:
            await nowhere.__aenter__()
            raise AssertionError("there is no server")
        except KvError as error:
            assert error.code == Result.UNREACHABLE
    async with AsyncStore(SERVER, ALONE) as open_store:
        untyped: Any = open_store
        for wrong in (untyped.get(5), untyped.set_if("v", b"", "1"), untyped.set("v", b"", ttl_ms=1.5)):
            try:
                await wrong
                raise AssertionError("the type is wrong")
            except TypeError as error:
                assert str(error)
        await open_store.set("v", b"kept")
        for version in WRONG_VERSIONS:
            for wrong in (open_store.set_if("v", b"lost", version), open_store.delete_if("v", version)):
                try:
                    await wrong
                    raise AssertionError(version)
                except ValueError as error:
                    assert str(version) in str(error)
        assert await open_store.get("v") == b"kept" and await open_store.delete("v")


async def cancelled_while_it_connects() -> None:
    opening = asyncio.create_task(AsyncStore.open(SERVER, ALONE))
    await asyncio.sleep(0)  # the task begins
    opening.cancel()
    assert (await asyncio.gather(opening, return_exceptions=True))[0].__class__ is asyncio.CancelledError


def a_store_that_no_task_waits_for_is_closed() -> None:
    """Its descriptors and its connection stayed open until the program ended."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        asyncio.run(cancelled_while_it_connects())  # which waits for the thread that connects
    assert len(os.listdir("/proc/self/fd")) == before


async def closed_while_tasks_use_it() -> None:
    """close() waited for operations that began after it, and passed its cancellation on."""
    store = await AsyncStore.open(SERVER, ALONE)
    calls_begun = 0

    async def work() -> None:
        nonlocal calls_begun
        while True:
            calls_begun += 1
            await store.get("key")

    workers = [asyncio.create_task(work()) for _ in range(5)]
    watching = asyncio.create_task(anext(aiter(store.watch("key")), None))
    while calls_begun < 50:
        await asyncio.sleep(0)
    last, closing = asyncio.create_task(store.get("key")), asyncio.create_task(store.close())
    await asyncio.sleep(0)  # both begin, and close() waits
    closing.cancel()
    assert (await asyncio.gather(closing, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    await last
    await asyncio.gather(store.close(), store.close())
    for ended in await asyncio.gather(*workers, return_exceptions=True):
        assert isinstance(ended, KvError) and (ended.code, ended.message) == (Result.INVALID, "the store is closed")
    assert await watching is None or (await watching).kind == EventKind.LOOK_AGAIN


async def asynchronous() -> None:
    async with await AsyncStore.open(SERVER, ALONE) as store:
        keys = [f"async {i}" for i in range(10_000)]  # more than are under way at once
        await asyncio.gather(*(store.set(key, key.encode()) for key in keys))
        assert await store.get_many(keys) == [key.encode() for key in keys]
        assert await store.get("none") is None
        assert await store.delete(keys[0]) and not await store.delete(keys[0])
        found: list[set[bytes]] = [set(), set()]

        async def walk(number: int) -> None:
            async for key in store.scan("async "):
                found[number].add(key)

        # Two walks and other operations are under way together.
        await asyncio.gather(walk(0), walk(1), store.get_many(keys))
        assert found == [{key.encode() for key in keys[1:]}] * 2
        assert [key async for key in store.scan("no such")] == []
        large = bytearray(b"x" * 1_000_000)
        await store.set("brief", b"value", ttl_ms=1)
        while await store.get("brief") is not None:
            pass
        await store.set("large", large)
        assert await store.get("large") == large
        version = await store.set_if("v", b"one", 0)
        assert await store.get_version("v") == (b"one", version)
        outcomes = await asyncio.gather(
            store.set_if("v", b"two", 0), store.get("v"), store.set("", b""), return_exceptions=True
        )
        assert [getattr(each, "code", None) for each in outcomes] == [Result.CHANGED, None, Result.EMPTY_KEY]
        await store.delete_if("v", version)

        seen: list[Event] = []

        async def follow() -> None:
            with store.watch("w:", prefix=True) as watcher:
                async for event in watcher:
                    seen.append(event)
                    if len(seen) == len(WATCHED) + 1:
                        break

        following = asyncio.create_task(follow())
        while not seen:
            await asyncio.sleep(0)
        await store.delete("w:1")  # it is missing, so nothing happens
        await store.set("w:1", b"one")
        await store.set("w:1", b"two", ttl_ms=1)
        while len(seen) < 4:
            await asyncio.sleep(0)
        await store.set(b"w:\xff", b"")
        await following
        assert kinds([*seen]) == [(EventKind.LOOK_AGAIN, b""), *WATCHED]
        until_closed = asyncio.create_task(anext(aiter(store.watch("w:2")), None))

        # A task that is cancelled waits no more; the store goes on.
        task = asyncio.create_task(store.get("large"))
        await asyncio.sleep(0)
        task.cancel()
        assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        assert await store.get("large") == large
        # Others run while an operation is under way.
        turns = 0
        waiting = asyncio.ensure_future(store.get("large"))
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 0
        last = asyncio.create_task(store.get("large"))
        await asyncio.sleep(0)
    assert await last == large  # close() waits for it
    assert await until_closed is None or (await until_closed).kind == EventKind.LOOK_AGAIN
    try:
        await store.get("large")
        raise AssertionError("the store is closed")
    except KvError as error:
        assert error.code == Result.INVALID
    await store.close()


with Store(SERVER, SETTINGS) as shared:
    calls(shared)
    versions(shared)
    a_version_out_of_range_is_not_any_version(shared)
    many(shared)
    watching(shared)
    threads(shared)
a_value_outlives_its_store_and_its_first_view()
assert code_of(Store, "127.0.0.1:1") == Result.UNREACHABLE
assert code_of(Store, SERVER, Settings(transport="pigeon")) == Result.INVALID
asyncio.run(connected_late())
a_store_that_no_task_waits_for_is_closed()
asyncio.run(closed_while_tasks_use_it())
asyncio.run(asynchronous())
print("all good")
