"""Calls the functions of a Verbena RPC server, over TCP.

    with Client("127.0.0.1", 9000) as client:
        client.call("add", 1, 2)                          # 3
        reply = client.send("echo", "hello")              # a Future: many may be under way
        reply.result().value                              # "hello"
        with client.stream("count", 1, 10) as numbers:    # a function that has a stream
            for number in numbers: ...

A function is named as it was registered: the C++ function's name, "Class::member" for members, or the name given to register_handler().
Arguments and results are what MessagePack has: numbers, str, bytes, list, dict, None. Attachments are bytes beside them.

A client may be used from any thread. Errors are RpcError, with the code and the server's sentence.
"""

from .client import Client
from .errors import Reply, RpcError
from .frame import function_id
from .stream import Stream

__all__ = ["Client", "Reply", "RpcError", "Stream", "function_id"]
