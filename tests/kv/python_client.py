# SPDX-License-Identifier: Apache-2.0
"""python_client.py SERVER TRANSPORT: uses all of verbena_kv, and prints "all good"."""

import asyncio
import gc
import sys
import threading

from verbena_kv import AsyncStore, KvError, Result, Settings, Store

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
    try:
        await store.get("large")
        raise AssertionError("the store is closed")
    except KvError as error:
        assert error.code == Result.INVALID
    await store.close()


with Store(SERVER, SETTINGS) as shared:
    calls(shared)
    versions(shared)
    many(shared)
    threads(shared)
a_value_outlives_its_store_and_its_first_view()
assert code_of(Store, "127.0.0.1:1") == Result.UNREACHABLE
assert code_of(Store, SERVER, Settings(transport="pigeon")) == Result.INVALID
asyncio.run(asynchronous())
print("all good")
