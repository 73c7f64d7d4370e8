# SPDX-License-Identifier: Apache-2.0
"""Two processes that move checked data: the part that nixl_pair.py and mooncake_pair.py share.

The target has a buffer of BYTES. In each round the initiator writes a pattern into the target's
buffer, the target compares it and answers by its own pattern, and the initiator reads that. Words
about the rounds go over a TCP connection, so only the data goes by the library under test.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator

import numpy as np

BYTES = 4 << 20
SIZES = [1, 4096, 100_001, BYTES]  # the rounds take them in turn


def pattern(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, BYTES, dtype=np.uint8)


def connection(arguments: list[str]) -> socket.socket:
    """`target PORT` waits for the initiator; `initiator ADDRESS PORT` connects to the target."""
    if arguments[0] == "target":
        with socket.create_server(("", int(arguments[1]))) as server:
            made, _ = server.accept()
    else:
        made = socket.create_connection((arguments[1], int(arguments[2])))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Words:
    """Lines of bytes over the connection, each as long as its first four bytes say."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")

    def send(self, word: bytes) -> None:
        self._stream.write(len(word).to_bytes(4, "big") + word)
        self._stream.flush()

    def receive(self) -> bytes:
        length = int.from_bytes(self._exactly(4), "big")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        read = self._stream.read(count)
        if len(read) != count:
            end("the peer is gone", 1)
        return read


def rounds(count: int) -> Iterator[tuple[int, int]]:
    """The number and the size of each round."""
    for number in range(count):
        yield number, SIZES[number % len(SIZES)]


def serve(words: Words, buffer: np.ndarray) -> None:
    """The target's rounds, until the initiator says that it has done them."""
    done = 0
    while (word := words.receive()) != b"done":
        number, size = map(int, word.split())
        if not np.array_equal(buffer[:size], pattern(2 * number)[:size]):
            end(f"round {number}: {size} written bytes are wrong", 1)
        buffer[:] = pattern(2 * number + 1)
        words.send(b"next")
        done += 1
    words.send(b"bye")
    end(f"target: {done} rounds, every byte right", 0)


def initiate(
    words: Words, buffer: np.ndarray, count: int, write: Callable[[int], None], read: Callable[[int], None]
) -> None:
    """The initiator's rounds; write(size) and read(size) move the first bytes of the buffer."""
    for number, size in rounds(count):
        buffer[:] = pattern(2 * number)
        write(size)
        words.send(f"{number} {size}".encode())
        if words.receive() != b"next":
            end(f"round {number}: the target refused", 1)
        buffer[:] = 0
        read(size)
        expected = pattern(2 * number + 1)
        if not np.array_equal(buffer[:size], expected[:size]) or buffer[size:].any():
            end(f"round {number}: {size} read bytes are wrong", 1)
    words.send(b"done")
    words.receive()
    end(f"initiator: {count} rounds, every byte right", 0)


def end(text: str, status: int) -> None:
    """Print, and end without the libraries' destructors.

    The libraries of the nixl wheel crash in their destructors, with or without a NIC.
    """
    print(text, flush=True)
    sys.stderr.flush()
    os._exit(status)
