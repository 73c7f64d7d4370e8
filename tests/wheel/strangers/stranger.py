# SPDX-License-Identifier: Apache-2.0
"""A program that uses the public functions of the distribution, for mypy --strict."""

from concurrent.futures import Future

import verbena
from verbena_kv import AsyncStore, KvError, Settings, Store
from verbena_rpc import Client, Reply, RpcError, Stream, function_id
from verbena_rpc.tls import Tls

TRUST = Tls(ca="ca.pem", cert="client.pem", key="client.key")


def use(host: str, port: int) -> bytes:
    with Client(host, port, timeout=5.0, tls=TRUST) as client:
        reply: Future[Reply] = client.send("echo", "hello", attachment=b"beside")
        numbers: Stream = client.stream("count", 1, 10)
        for number in numbers:
            print(number)
        try:
            client.call("add", 1, 2, timeout=1.0)
        except RpcError as error:
            print(f"{error.code}: {error.message}")
        return reply.result().attachment


def store(servers: str) -> int:
    with Store(servers, Settings(timeout=5.0, transport="tcp", lanes=2)) as kept:
        kept.set("key", bytearray(b"value"))
        kept.set_many({"a": b"1", b"b": memoryview(b"2")})
        found = [value for value in kept.get_many(["a", b"b"]) if value is not None]
        version = kept.set_if("key", b"other", kept.get_version("key").version)
        try:
            kept.delete_if("key", version)
        except KvError as error:
            print(error.code, error.message)
        return len(found) + kept.delete("key")


async def store_together(servers: str) -> bytes:
    async with AsyncStore(servers, Settings(timeout=None)) as kept, await AsyncStore.open(servers) as other:
        await other.delete("key")
        await kept.set("key", b"value")
        value = await kept.get("key")
        return b"" if value is None else value.tobytes()


print(verbena.__version__, function_id("echo"))
