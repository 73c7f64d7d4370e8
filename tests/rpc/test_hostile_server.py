# SPDX-License-Identifier: Apache-2.0
"""The C++ client against a server that breaks the protocol.

A call must fail with a reason or be answered; the client must neither crash nor hang.
"""

import contextlib
import hashlib
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
msgpack = pytest.importorskip("msgpack")

from verbena_rpc import channel, frame, function_id  # noqa: E402

CLIENT = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "bench" / "rpc_test_client"
PARAMETERS = bytes([1, 1, 2, 2, 1, 2, 15, 16]) + b"n" * 16  # role server, transport TCP, nonce


def parameters(fields: bytes = PARAMETERS) -> bytes:
    return b"VBCH" + struct.pack(">BBH", 1, 1, 8 + len(fields)) + fields


def message(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


def answer(sequence: int, value: object = "hello") -> bytes:
    return frame.encode(frame.RESPONSE, sequence, 0, msgpack.packb(value))


def item(sequence: int, value: object = 1) -> bytes:
    return frame.encode(frame.ITEM, sequence, 0, msgpack.packb(value))


def head(kind: int, sequence: int, word: int = 0, body: int = 0, attachment: int = 0, version: int = 1) -> bytes:
    """Return a header that may claim anything."""
    return frame.HEADER.pack(frame.MAGIC, version, kind, int(body > 0), sequence, word, body, attachment, 0)


class HostileServer:
    """A server for one client, on a thread of its own.

    `says`: returns the bytes to send after the first request, given its sequence number; later
    requests are answered with "again".
    `hangs_up`: close the connection after that.
    `set_up`, `proof`: bytes to send instead of the server's parameters, and instead of its proof
    that it has seen the same set-up messages.
    """

    def __init__(
        self,
        says: Callable[[int], bytes] = lambda _: b"",
        hangs_up: bool = False,
        set_up: bytes | None = None,
        proof: bytes | None = None,
    ) -> None:
        self._says, self._hangs_up, self._set_up, self._proof = says, hangs_up, set_up, proof
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "HostileServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError):  # the client may leave at any time
            self._listener.settimeout(20)
            connection, _ = self._listener.accept()
            connection.settimeout(20)
            with connection, connection.makefile("rb") as file:
                self._converse(connection, file)

    def _converse(self, connection: socket.socket, file) -> None:
        theirs = read(file, 8)
        theirs += read(file, struct.unpack(">H", theirs[6:8])[0] - 8)
        connection.sendall(parameters() if self._set_up is None else self._set_up)
        read_message(file)  # the client's proof
        nonce = channel._fields(theirs)[15]
        setup, transcript = (
            hashlib.sha256(nonce + b"n" * 16).digest()[:8],
            hashlib.sha256(theirs + parameters()).digest(),
        )
        proof = channel._proof(2, bytes(32), setup, transcript)
        connection.sendall(message(proof if self._proof is None else self._proof))
        asked = False
        while True:
            for each in frame.decode(read_message(file)):
                if each.kind not in (frame.REQUEST, frame.OPEN):
                    continue
                if each.word == function_id("verbena::protocol"):
                    connection.sendall(message(answer(each.sequence, 2)))
                elif asked:
                    connection.sendall(message(answer(each.sequence, "again")))
                else:
                    asked = True
                    connection.sendall(self._says(each.sequence))
                    if self._hangs_up:
                        return


def read(file, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def read_message(file) -> bytes:
    return read(file, struct.unpack("<I", read(file, 4))[0])


def run(port: int, what: str, patience_s: int = 20) -> list[str]:
    done = subprocess.run(
        [CLIENT, str(port), what, str(patience_s)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done
    return done.stdout.splitlines()


# By name: the kind of call, the bytes that the server sends (given the call's sequence number), and
# the outcome of the call, a regular expression. After these the connection ends.
ENDS = {
    "garbage": ("call", lambda _: message(b"\x15" * 64), "error 12 .*magic byte"),
    "half a header": ("call", lambda n: message(answer(n)[:10]), "error 12 .*within a frame's header"),
    "a truncated answer": ("call", lambda n: message(answer(n)[:-1]), "error 12 .*longer than its message"),
    "another version": ("call", lambda n: message(head(frame.RESPONSE, n, version=2)), "error 13 .*another version"),
    "an unknown kind": ("call", lambda n: message(head(11, n)), "error 12 .*kind does not exist"),
    "a body longer than its message": (
        "call",
        lambda n: message(head(frame.RESPONSE, n, body=0xFFFFFFFF)),
        "error 12 .*longer",
    ),
    "an attachment longer than its message": (
        "attachment",
        lambda n: message(head(frame.RESPONSE, n, attachment=1_000) + b"a" * 999),
        "error 12 .*longer",
    ),
    "lengths whose sum is 0 modulo 2^32": (
        "attachment",
        lambda n: message(head(frame.RESPONSE, n, body=1, attachment=0xFFFFFFFF)),
        "error 12 .*longer",
    ),
    "an item without a body": ("stream", lambda n: message(head(frame.ITEM, n)), "error 12 .*an item must have a body"),
    "more items than there is room for": ("stream", lambda n: message(item(n) * 20_000), "error 12 .*more was sent"),
    "more room than there can be": (
        "stream",
        lambda n: message(frame.encode(frame.WINDOW, n, 0xFFFFFFFF)) * 2,
        "error 12 .*",
    ),
    "a message of 4 GiB": ("call", lambda _: b"\xff\xff\xff\xff" + b"a" * 100, "error 1 .*"),
}
HANGS_UP = {"within a message": lambda n: message(answer(n))[:20], "in place of an answer": lambda _: b""}


@pytest.mark.parametrize("name", ENDS)
def test_a_violation_of_the_protocol_fails_the_call_and_ends_the_connection(name: str) -> None:
    what, says, expected = ENDS[name]
    with HostileServer(says) as server:
        first, second = run(server.port, what)
    assert re.match(expected, first), first
    assert re.match("error 2 .+", second), second


@pytest.mark.parametrize("when", HANGS_UP)
@pytest.mark.parametrize("what", ["call", "attachment", "stream"])
def test_a_closed_connection_fails_the_call_in_flight(what: str, when: str) -> None:
    with HostileServer(HANGS_UP[when], hangs_up=True) as server:
        first, second = run(server.port, what)
    assert re.match("error 1 .+", first), first
    assert re.match("error 2 .+", second), second


TIMED_OUT = "error 3 .+"
# The same for mistakes that concern one call or none. After these the connection stays up.
STANDS = {
    "an answer to a call that is not there": (
        "call",
        lambda n: message(answer(n + 77, "wrong") + answer(n)),
        "ok hello",
    ),
    "an answer twice": ("call", lambda n: message(answer(n) + answer(n, "wrong")), "ok hello"),
    "an item of no stream": ("call", lambda n: message(item(n + 77) + item(n) + answer(n)), "ok hello"),
    "requests of its own": (
        "call",
        lambda n: message(
            b"".join(head(kind, n) for kind in (frame.REQUEST, frame.OPEN, frame.CANCEL, frame.PING)) + answer(n)
        ),
        "ok hello",
    ),
    "an empty message": ("call", lambda n: message(b"") + message(answer(n)), "ok hello"),
    "a result of another type": ("call", lambda n: message(answer(n, {"a": [1]})), "error 16 .+"),
    "no result": ("call", lambda n: message(head(frame.RESPONSE, n)), "error 16 .+"),
    "an array of four billion": (
        "call",
        lambda n: message(frame.encode(frame.RESPONSE, n, 0, b"\xdd\xff\xff\xff\xff")),
        "error 16 .+",
    ),
    "endless nesting": (
        "call",
        lambda n: message(frame.encode(frame.RESPONSE, n, 0, b"\x91" * 100_000)),
        "error 16 .+",
    ),
    "an error without words": (
        "call",
        lambda n: message(frame.encode(frame.RESPONSE, n, 10_404, b"\xc1")),
        "error 10404 .*",
    ),
    "a body above the limit": (
        "call",
        lambda n: message(answer(n, "a" * (17 << 20))),
        "error 14 .+larger than the client's limit",
    ),
    "nothing": ("call", lambda _: b"", TIMED_OUT),
    "a larger attachment than there is room for": (
        "attachment",
        lambda n: message(frame.encode(frame.RESPONSE, n, attachment=b"a" * 1_000)),
        "ok 1000",
    ),
    "an item of another type": ("stream", lambda n: message(item(n, ["one"])), "error .+"),
    "an item behind the end": ("stream", lambda n: message(item(n) + answer(n, 3) + item(n)), "ok 1"),
    "an end without items": ("stream", lambda n: message(answer(n, 3)), "ok 0"),
    "a stream that goes on without a word": ("stream", lambda n: message(item(n)), TIMED_OUT),
}


@pytest.mark.parametrize("name", STANDS)
def test_a_mistake_in_one_answer_leaves_the_connection_up(name: str) -> None:
    what, says, expected = STANDS[name]
    with HostileServer(says) as server:
        first, second = run(server.port, what, 1 if expected == TIMED_OUT else 20)
    assert re.match(expected, first), first
    assert second == "ok again"


SET_UP = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a length of 64 KiB": b"VBCH\x01\x01\xff\xff",
    "a length of nothing": b"VBCH\x01\x01\x00\x00",
    "a client's role": parameters(bytes([1, 1, 1]) + PARAMETERS[3:]),
    "a field that is longer than all": parameters(PARAMETERS[:7] + b"\xff" + b"n" * 16),
    "a refusal with control characters": parameters(bytes([1, 1, 2, 16, 6, 0, 2]) + b"\x1b[2J"),
    "a later version's": b"VBCH\x02\x02\x00\x20" + bytes(24),
    "nothing": b"",
}


@pytest.mark.parametrize("name", SET_UP)
def test_a_set_up_that_fails_gives_a_printable_reason(name: str) -> None:
    with HostileServer(set_up=SET_UP[name]) as server:
        (line,) = run(server.port, "call", 20 if SET_UP[name] else 1)
    assert re.match(r"error [23] \S.{10,}", line) and line.isprintable(), line


PROOFS = {
    "nothing": b"",
    "a word": b"trust me",
    "another's": b"VBPF\x01\x02\x00\x00" + bytes(40),
    "too much": bytes(100_000),
}


@pytest.mark.parametrize("proof", PROOFS)
def test_a_server_without_a_valid_proof_is_not_called(proof: str) -> None:
    with HostileServer(proof=PROOFS[proof]) as server:
        (line,) = run(server.port, "call")
    assert re.match(r"error 2 \S.{10,}", line), line
