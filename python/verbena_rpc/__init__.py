# SPDX-License-Identifier: Apache-2.0
"""Call the functions of a Verbena RPC server over TCP, in plain text or in TLS.

    with Client("127.0.0.1", 9000) as client:
        client.call("add", 1, 2)                          # 3
        reply = client.send("echo", "hello")              # a Future: many may be in flight
        reply.result().value                              # "hello"
        with client.stream("count", 1, 10) as numbers:    # a function that has a stream
            for number in numbers: ...

A function has the name of its registration: the C++ function's name, "Class::member" for members,
or the name given to register_handler(). Arguments and results have the types of MessagePack:
numbers, str, bytes, list, dict, None. Attachments are bytes beside them.

Threads: a Client is thread-safe. One thread may read a Stream while another writes it.
Errors: RpcError, with a code and one sentence; the constructor raises ConnectionError or OSError if
  the client cannot connect.
"""

try:
    from .client import Client
except ModuleNotFoundError as error:
    if error.name != "msgpack":
        raise
    raise ImportError(
        "verbena_rpc needs msgpack: pip install msgpack, or Debian's python3-msgpack", name="msgpack"
    ) from error
from .errors import Reply, RpcError
from .frame import function_id
from .stream import Stream

__all__ = ["Client", "Reply", "RpcError", "Stream", "function_id"]
