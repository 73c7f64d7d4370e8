# SPDX-License-Identifier: Apache-2.0
"""Mistakes that mypy --strict must find: the types are those of the installed package."""

from verbena_kv import Settings, Store
from verbena_rpc import Client, RpcError

client = Client("127.0.0.1", "9000")  # wrong
client.call(7)  # wrong
client.send("echo", attachment="text")  # wrong
client.recall("echo")  # wrong
code: str = RpcError(1, "no").code  # wrong
Store("127.0.0.1", Settings(timeout="5"))  # wrong
Store("127.0.0.1").set("key", "text")  # wrong
value: memoryview = Store("127.0.0.1").get("key")  # wrong
