# SPDX-License-Identifier: Apache-2.0
"""A program that uses the public functions of the distribution, for mypy --strict."""

from concurrent.futures import Future

import verbena
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


print(verbena.__version__, function_id("echo"))
