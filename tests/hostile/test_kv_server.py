# SPDX-License-Identifier: Apache-2.0
"""Small requests of one client that cost the other clients of kv_server their answers.

The hostile client sends records of its own making, over TCP in plain text.
"""

import re
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# ruff: noqa: F401, F811
from library import Program, Programs, allow_descriptors, started, wait_until
from verbena_rpc.channel import ChannelError, TcpChannel

GET, SET, WATCH = 1, 2, 11
IDENTIFIED = 0x80
GOOD = 0
PREFIX = struct.pack("<B7x", 1)  # the value of a WATCH
WATCHES = 256  # the most that one connection may have
LIMIT_S = 10.0  # for an answer


def serve(programs: Programs, *options: object) -> tuple[Program, int]:
    server = programs.start("kv_server", "--insecure", "--listen", "127.0.0.1", "--port", 0, *options)
    found = wait_until(lambda: re.search(r"listening at \S+?:(\d+)", server.out), "the server listens", alive=server)
    return server, int(found[1])


def connect(port: int, client: int = 0) -> TcpChannel:
    """Connect and exchange greetings; `client` is the number of a client whose changes have ids."""
    channel = TcpChannel("127.0.0.1", port, LIMIT_S, None)
    channel.send(struct.pack("<IHHIIIIIIQQQQ", 0x564B4256, 3, 1, 0, 64 << 20, 0, 0, 0, 0, client, 0, 0, 0))
    channel.receive()
    return channel


def record(operation: int, key: bytes, value: bytes = b"", number: int = 1, order: int = 0) -> bytes:
    """A request; `order` is the number of an identified change."""
    options = IDENTIFIED if order else 0
    header = struct.pack("<BBHIII", operation, options, len(key), number, len(value), 0)
    return header + (struct.pack("<QQ", order, 0) if order else b"") + key + value


def test_a_change_with_a_huge_number_does_not_keep_the_server_from_starting_again(started: Programs) -> None:
    for order in (2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1):
        server, port = serve(started, "--data", "store")
        channel = connect(port, client=77)
        channel.send(record(SET, b"key", b"value", order=order))
        if order == 2**63:
            assert channel.receive()[0] == GOOD
        else:
            with pytest.raises(ChannelError):
                channel.receive()
        channel.close()
        server.kill()
    _, port = serve(started, "--data", "store")
    channel = connect(port, client=77)
    channel.send(record(GET, b"key"))
    assert bytes(channel.receive())[16:] == b"value"
    channel.close()


def watch(port: int, texts: list[bytes]) -> TcpChannel:
    """Connect, watch these prefixes, and wait until the watches have begun."""
    channel = connect(port)
    channel.send(b"".join(record(WATCH, text, PREFIX, number) for number, text in enumerate(texts)))
    heard = 0
    while heard < len(texts) * 24:
        heard += len(channel.receive())
    return channel


def test_texts_that_begin_like_a_key_do_not_let_a_message_of_sets_stop_the_server(started: Programs) -> None:
    """Each SET took 5 ms. No watch has the key, and the message has 4,000 of them."""
    _, port = serve(started)
    key = b"a" * 4096
    texts = [key[:length] + b"\0" for length in range(len(key))]
    watching = [watch(port, texts[first : first + WATCHES]) for first in range(0, len(texts), WATCHES)]
    honest, other = connect(port), connect(port)
    other.send(b"".join(record(SET, key, b"v", number) for number in range(4000)))
    for number in range(20):
        honest.send(record(GET, b"honest", number=number))
        honest.receive()
    heard = 0
    while heard < 4000 * 16:
        heard += len(other.receive())
    for each in (*watching, honest, other):
        each.close()


def test_very_many_watches_of_one_prefix_end_without_stopping_the_server(started: Programs) -> None:
    """When 1,000 connections with 256 watches each ended, a SET waited for 25 seconds."""
    allow_descriptors(4096)
    _, port = serve(started)
    watching = [watch(port, [b""] * WATCHES) for _ in range(1000)]
    honest = connect(port)
    for each in watching:
        each.close()
    for number in range(20):
        honest.send(record(SET, b"honest", b"v", number=number))
        honest.receive()
    honest.close()
