#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""batch.py SERVER: one call after the other, many at once, and 1000 operations by asyncio.

PYTHONPATH=python VERBENA_KV_LIBRARY=build/libverbena-kv.so examples/kv/batch.py 127.0.0.1
"""

import asyncio
import sys

from verbena_kv import AsyncStore, KvError, Result, Store

SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"


def one_after_the_other() -> None:
    with Store(SERVER) as store:
        store.set("greeting", b"hello")
        value = store.get("greeting")  # a view of the library's memory, freed with its last use
        print("nothing" if value is None else value.tobytes().decode())
        store.set_many({f"key {i}": f"value {i}".encode() for i in range(64)})
        print(sum(value is not None for value in store.get_many(f"key {i}" for i in range(65))), "of 65 keys")
        try:
            store.set_if("greeting", b"hi", version=0)  # only if the key is missing
        except KvError as error:
            print(error.message if error.code == Result.CHANGED else "?")


async def together() -> None:
    async with AsyncStore(SERVER) as store:
        await asyncio.gather(*(store.set(f"key {i}", b"x" * i) for i in range(1000)))
        values = await asyncio.gather(*(store.get(f"key {i}") for i in range(1000)))
        print(sum(len(value) for value in values if value is not None), "bytes")


one_after_the_other()
asyncio.run(together())
