# SPDX-License-Identifier: Apache-2.0
"""Messages that could cost the server more than their bytes, from unauthenticated clients.

While a client attacks, another one makes calls, and the server's memory is measured.
"""

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(ROOT / "python"))
msgpack = pytest.importorskip("msgpack")

from library import BUILD, descriptors, memory  # noqa: E402
from verbena_rpc import Client, RpcError, frame, function_id  # noqa: E402
from verbena_rpc.channel import TcpChannel  # noqa: E402

MIB = 1 << 20
BODY = 16 * MIB  # the largest body that the server accepts by default
MESSAGE_TOO_LARGE = 14
SLACK = 24 * MIB  # for the allocator, and for the client beside the attack
LATENCY_MAX_S = 2.0
LIMIT_S = 60.0  # then the server is killed, which ends what waits for it


class Server:
    """rpc_test_server with the default limits, over TCP in plain text."""

    def __init__(self, threads: int) -> None:
        self.process = subprocess.Popen(
            [BUILD / "bench" / "rpc_test_server", str(threads), "tcp-wide"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def memory(self) -> int:
        return memory(self.process.pid)

    def peak(self) -> int:
        return memory(self.process.pid, "VmHWM")


@contextlib.contextmanager
def serving(threads: int) -> Iterator[Server]:
    running = Server(threads)
    limit = threading.Timer(LIMIT_S, running.process.kill)
    limit.start()
    try:
        yield running
    finally:
        limit.cancel()
        running.process.kill()
        running.process.wait(20)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(2) as running:
        yield running


@pytest.fixture
def one_thread() -> Iterator[Server]:
    """A server whose connections share one thread."""
    with serving(1) as running:
        yield running


@contextlib.contextmanager
def neighbour(server: Server) -> Iterator[None]:
    """Make calls while the block runs; all must be answered, and none may take long."""
    over, slowest, problems = threading.Event(), 0.0, []

    def call() -> None:
        nonlocal slowest
        try:
            with Client("127.0.0.1", server.port, timeout=20) as client:
                while not over.is_set():
                    began = time.monotonic()
                    assert client.call("rpc_test::add", 1, 2) == 3
                    slowest = max(slowest, time.monotonic() - began)
        except Exception as problem:
            problems.append(repr(problem))

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not problems
    assert slowest < LATENCY_MAX_S


def nils(size: int) -> bytes:
    return b"\x91\xdd" + struct.pack(">I", size - 6) + b"\xc0" * (size - 6)


def nested(size: int) -> bytes:
    return b"\x91" * size


def maps(size: int) -> bytes:
    return b"\x91\xdf" + struct.pack(">I", (size - 6) // 2) + b"\xc0" * (size - 6)


def many_arrays(size: int) -> bytes:
    """Arrays of a thousand empty arrays."""
    inner = b"\xdc\x03\xe8" + b"\x90" * 1000
    count = (size - 6) // len(inner)
    return b"\x91\xdd" + struct.pack(">I", count) + inner * count


def unfinished(size: int) -> bytes:
    """Arrays that each claim more elements than follow."""
    return (b"\xdd" + struct.pack(">I", size // 100)) * (size // 5)


@pytest.mark.parametrize("shape", [nils, nested, maps, many_arrays, unfinished])
def test_a_body_costs_at_most_twice_its_bytes_and_nothing_afterwards(
    server: Server, shape: Callable[[int], bytes]
) -> None:
    body = shape(BODY - 1024)
    callers = 8
    with neighbour(server):
        before = server.memory()
        channels = [TcpChannel("127.0.0.1", server.port, 30.0, None) for _ in range(callers)]
        for channel in channels:
            channel.send(frame.encode(frame.REQUEST, 1, function_id("rpc_test::older"), body))
            answer = frame.decode(channel.receive())[0]
            assert answer.kind == frame.RESPONSE
            assert answer.word != 0, "arguments that are none were accepted"
        after = server.memory()
        # The connections are open and idle now. The allocator keeps the blocks of a message or two
        # of each of the two threads for the next ones, however many connections there are.
        assert after - before < 4 * BODY + SLACK, f"{callers} idle connections hold {(after - before) / MIB:.0f} MiB"
        assert server.peak() - before < min(2 * callers, 4) * BODY + SLACK
        for channel in channels:
            channel.close()


def test_the_error_says_that_the_arguments_take_too_much_memory(server: Server) -> None:
    with Client("127.0.0.1", server.port) as client:
        with pytest.raises(RpcError) as raised:
            client.call("rpc_test::older", [None] * 1_000_000, 1, False)
        assert raised.value.code == MESSAGE_TOO_LARGE
        assert "decoded_max" in str(raised.value)
        assert client.call("rpc_test::add", 1, 2) == 3


def test_calls_that_wait_hold_no_more_than_the_connections_budget(server: Server) -> None:
    """One client has calls under way that keep their messages, four times the budget of 64 MiB."""
    attachment, calls = b"a" * MIB, 256
    with neighbour(server):
        before = server.memory()
        with socket.socket() as _, contextlib.closing(TcpChannel("127.0.0.1", server.port, 30.0, None)) as channel:
            request = function_id("rpc_test::until_cancelled")

            def flood() -> None:
                with contextlib.suppress(OSError):
                    for number in range(1, calls + 1):
                        channel.send(frame.encode(frame.REQUEST, number, request, b"", attachment))

            thread = threading.Thread(target=flood)
            thread.start()
            # The server stops reading: the sender gets stuck before it has sent everything.
            thread.join(3)
            held = server.memory() - before
            stuck = thread.is_alive()
            channel.close()
            thread.join()
        assert stuck, "the server took everything"
        assert held < 2 * 64 * MIB + SLACK, f"{held / MIB:.0f} MiB"


def test_a_small_call_that_waits_does_not_keep_the_long_message_it_came_in(server: Server) -> None:
    """The rest of each message are items of a stream that does not exist."""
    calls, ignored = 8, frame.encode(frame.ITEM, 0xFFFFFF00, 0, b"x" * (15 * MIB)) * 4
    request = function_id("rpc_test::until_cancelled")
    with neighbour(server):
        before = server.memory()
        with contextlib.closing(TcpChannel("127.0.0.1", server.port, 30.0, None)) as channel:
            for number in range(1, calls + 1):
                channel.send(frame.encode(frame.REQUEST, number, request) + ignored)
            channel.send(frame.encode(frame.PING, 1))
            assert frame.decode(channel.receive())[0].kind == frame.PONG
            held = server.memory() - before
        assert held < 64 * MIB + SLACK, f"{held / MIB:.0f} MiB"


def test_unread_items_of_all_streams_hold_no_more_than_the_connections_budget(server: Server) -> None:
    """Each stream may have one item beyond its window. One that finds no room ends its stream."""
    streams, budget, size = 24, 256 * MIB, 15 * MIB
    function = function_id("rpc_test::read_when_allowed")
    errors = []
    with neighbour(server):
        before = server.memory()
        with contextlib.closing(TcpChannel("127.0.0.1", server.port, 30.0, None)) as channel:
            for number in range(1, streams + 1):
                channel.send(frame.encode(frame.OPEN, number, function))
                channel.send(frame.encode(frame.ITEM, number, 0, b"x" * size))
            channel.send(frame.encode(frame.PING, 1))
            kinds: list[int] = []
            while frame.PONG not in kinds:
                frames = frame.decode(channel.receive())
                kinds = [each.kind for each in frames]
                errors += [each.word for each in frames if each.kind == frame.RESPONSE]
            held = server.memory() - before
        assert held < budget + size + SLACK, f"{held / MIB:.0f} MiB"
        assert errors == [MESSAGE_TOO_LARGE] * (streams - budget // size)


def test_messages_that_claim_64_mib_and_send_a_part_cost_that_part(server: Server) -> None:
    callers, part = 50, 4096
    with neighbour(server):
        before, files = server.memory(), descriptors(server.process.pid)
        channels = [TcpChannel("127.0.0.1", server.port, 30.0, None) for _ in range(callers)]
        for channel in channels:
            channel._stream.sendall(struct.pack("<I", 64 * MIB) + b"x" * part, None)
        with Client("127.0.0.1", server.port) as client:
            assert client.call("rpc_test::add", 1, 2) == 3
        assert server.memory() - before < SLACK
        assert descriptors(server.process.pid) <= files + callers + 2
        for channel in channels:
            channel.close()


def test_calls_whose_numbers_a_client_chooses_do_not_hold_up_the_clients_of_its_thread(one_thread: Server) -> None:
    """Multiples of 2^16 were in one list of the table of calls, which each cancel walked."""
    calls, cancels = 20_000, 300_000
    request = function_id("rpc_test::until_cancelled")
    with (
        neighbour(one_thread),
        contextlib.closing(TcpChannel("127.0.0.1", one_thread.port, 30.0, None)) as channel,
    ):
        channel.send(b"".join(frame.encode(frame.REQUEST, number << 16, request) for number in range(1, calls)))
        channel.send(frame.encode(frame.CANCEL, 0) * cancels + frame.encode(frame.PING, 1))
        assert frame.decode(channel.receive())[0].kind == frame.PONG
