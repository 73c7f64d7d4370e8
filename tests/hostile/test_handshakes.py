# SPDX-License-Identifier: Apache-2.0
"""Set-ups that an attacker disturbs or starves: bytes that are changed, cut, held back or replayed
on their way, and callers that hold places without using them.

`make test` takes a sample of the places in the stream; with VERBENA_HOSTILE=long all are taken, and
ten thousand callers. Each client must end within its deadline, and the server must go on serving.
"""

import contextlib
import itertools
import random
import re
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# ruff: noqa: F401, F811
from library import LONG, Program, Programs, allow_descriptors, descriptors, memory, serve_echo, started
from programs import wait_until
from proxies import DIRECTIONS, TO_CLIENT, TO_SERVER, Harm, Proxy, replay

HANDSHAKE_MS = 2000
STALL_MS = 2000
# A handshake's deadline, the watch for stalls, closing; and the start of a program on a busy host.
# In the long form 32 clients, which poll, share the processors.
CLIENT_LIMIT_S = 100.0 if LONG else 25.0
SERVER_OPTIONS = ("--handshake-timeout-ms", HANDSHAKE_MS, "--tcp-stall-timeout-ms", STALL_MS)
TRANSPORTS = ("rdma", "tcp")
# Most clients wait for a deadline. The long form has some 30,000 of them.
AT_ONCE = 32 if LONG else 6
IP_BIND_ADDRESS_NO_PORT = 24  # linux/in.h
MIB = 1 << 20


def client(programs: Programs, port: int, transport: str) -> Program:
    return programs.start(
        *("performance_test", "-c", 1, "-n", 2, "-t", 1, "--timeout-s", 4, "--connect-timeout-s", 6),
        *("-s", f"127.0.0.1:{port}", "--transport", transport),
    )


def expect_service(programs: Programs, port: int, transport: str = "tcp") -> None:
    ran = client(programs, port, transport).finish()
    assert ran.status == 0, f"the server does not serve any more: {ran}"


def expect_ends(programs: Programs, port: int, transport: str, harms: list[Harm]) -> None:
    """Run a client through each of the harms, a few at once. No client may succeed in a lie."""

    def run(harm: Harm) -> None:
        with Proxy(port, harm) as proxy:
            ran = client(programs, proxy.port, transport).finish(CLIENT_LIMIT_S)
        assert ran.status in (0, 1), f"{harm}: {ran}"
        assert ran.status == 0 or ran.err, f"{harm}: no reason is given: {ran}"

    with ThreadPoolExecutor(AT_ONCE) as clients:
        for _ in clients.map(run, harms):
            pass


def lengths(programs: Programs, port: int, transport: str) -> tuple[int, int]:
    """Return how many bytes a good client and the server exchange over TCP."""
    with Proxy(port) as proxy:
        assert client(programs, proxy.port, transport).finish().status == 0
        sent = proxy.recorded[0].sent
        return len(sent[TO_SERVER]), len(sent[TO_CLIENT])


def places(length: int, sample: int) -> list[int]:
    return list(range(length)) if LONG else sorted(random.Random(length).sample(range(length), sample))


@pytest.fixture
def echo(started: Programs) -> Iterator[tuple[Programs, Program, int]]:
    server, port = serve_echo(started, *SERVER_OPTIONS)
    yield started, server, port
    assert server.running, server.finish()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_flipped_bit_ends_the_client_and_not_the_server(echo: tuple[Programs, Program, int], transport: str) -> None:
    programs, _, port = echo
    both = lengths(programs, port, transport)
    harms = [
        Harm(direction, flip=(place, place % 8)) for direction in DIRECTIONS for place in places(both[direction], 9)
    ]
    # The lengths of the last records, of which one made a client wait for ever.
    harms += [Harm(TO_CLIENT, flip=(both[TO_CLIENT] - back, 0)) for back in (27, 26, 25, 24)]
    expect_ends(programs, port, transport, harms)
    expect_service(programs, port)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_connection_that_is_cut_anywhere_ends_the_client(echo: tuple[Programs, Program, int], transport: str) -> None:
    programs, _, port = echo
    both = lengths(programs, port, transport)
    harms = [Harm(direction, cut=place) for direction in DIRECTIONS for place in places(both[direction], 5)]
    expect_ends(programs, port, transport, harms)
    expect_service(programs, port)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_that_a_busy_server_sends_away_tries_again(
    echo: tuple[Programs, Program, int], transport: str
) -> None:
    """The server's answers: an alert (fatal, user_canceled), and an end within TLS."""
    programs, _, port = echo
    alert = bytes([21, 3, 3, 0, 2, 2, 90])
    for harm in (
        Harm(TO_CLIENT, instead=alert, cut=len(alert), connections=2),
        Harm(TO_CLIENT, cut=100, connections=2),
    ):
        with Proxy(port, harm) as proxy:
            ran = client(programs, proxy.port, transport).finish()
            assert ran.status == 0, f"{harm}: {ran}"
            assert len(proxy.recorded) == 3


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_bytes_that_never_arrive_end_the_client_at_its_deadline(
    echo: tuple[Programs, Program, int], transport: str
) -> None:
    programs, _, port = echo
    both = lengths(programs, port, transport)
    harms = [Harm(direction, hole=place) for direction in DIRECTIONS for place in places(both[direction], 3)]
    expect_ends(programs, port, transport, harms)
    expect_service(programs, port)


def test_a_slow_line_is_no_reason_to_refuse_a_client(echo: tuple[Programs, Program, int]) -> None:
    programs, _, port = echo
    for direction in DIRECTIONS:
        with Proxy(port, Harm(direction, pause_s=0.0005)) as proxy:
            ran = client(programs, proxy.port, "rdma").finish()
            assert ran.status == 0, ran


def test_a_downgrade_to_clear_text_is_refused_by_both_ends(echo: tuple[Programs, Program, int]) -> None:
    """The proxy gives each end the beginning of a set-up in clear, as if the other had sent it."""
    programs, _, port = echo
    parameters = b"VBCH\x01\x01\x00\x20" + bytes([1, 1, 1, 2, 1, 2, 15, 16]) + b"n" * 16
    for harm in (Harm(TO_SERVER, instead=parameters), Harm(TO_CLIENT, instead=parameters)):
        with Proxy(port, harm) as proxy:
            ran = client(programs, proxy.port, "tcp").finish(CLIENT_LIMIT_S)
            assert ran.status == 1, ran
            assert "1 connect" in ran.out, ran
    # The oldest version of TLS in the ClientHello's record and message.
    for place in (2, 10):
        with Proxy(port, Harm(TO_SERVER, flip=(place, 1))) as proxy:
            client(programs, proxy.port, "tcp").finish(CLIENT_LIMIT_S)
    expect_service(programs, port)


def test_the_bytes_of_an_earlier_client_are_no_client(started: Programs) -> None:
    programs = started
    server, port = serve_echo(started, *SERVER_OPTIONS)
    with Proxy(port) as proxy:
        assert client(programs, proxy.port, "tcp").finish().status == 0
        recorded = bytes(proxy.recorded[0].sent[TO_SERVER])
    replay(port, recorded, 15.0)
    expect_service(programs, port)
    ended = server.end()
    # The good clients are the first, and the one after the replay.
    assert "of 2 resumed" in ended.out, ended


# Callers that hold places. Each kind returns the bytes that a caller sends at once, and whether it
# sends a further byte each second.
Caller = tuple[bytes, bool]
CLIENT_HELLO_HEAD = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
KINDS: dict[str, Caller] = {
    "silent": (b"", False),
    "one byte": (b"\x16", False),
    "a byte a second": (CLIENT_HELLO_HEAD, True),
    "clear text": (b"VBCH\x01", False),
}


class Callers:
    """Half-open connections, spread over the loopback addresses or all from one."""

    def __init__(self, port: int, count: int, kind: Caller, addresses: int) -> None:
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()
        for number in range(count):
            each = socket.socket()
            source = number % addresses
            # The kernel chooses the port when it connects: to bind thousands takes it seconds.
            each.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            each.bind((f"127.{1 + source // 65025}.{source // 255 % 255}.{1 + source % 255}", 0))
            each.settimeout(10)
            each.connect(("127.0.0.1", port))
            if kind[0]:
                with contextlib.suppress(OSError):  # the server may have evicted it already
                    each.sendall(kind[0])
            self._sockets.append(each)
        self._thread = threading.Thread(target=self._trickle if kind[1] else self._over.wait, daemon=True)
        self._thread.start()

    def _trickle(self) -> None:
        while not self._over.wait(1.0):
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.send(b"x")

    def __enter__(self) -> "Callers":
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for each in self._sockets:
            each.close()


def connect_times_ms(programs: Programs, port: int, count: int) -> list[float]:
    """Connect that many clients one after the other, and return how long each took.

    All of them begin at once and wait for their turn, which is part of the time that the program
    prints; it ends with the client before.
    """
    command = ("performance_test", "-c", count, "-n", 1, "-t", 0, "--handshakes", 1, "-v")
    ran = programs.run(*command, "-s", f"127.0.0.1:{port}", "--transport", "tcp", limit_s=60)
    assert ran.status == 0, ran
    since_start = sorted(float(found) for found in re.findall(r"connected in ([\d.]+) ms", ran.out))
    assert len(since_start) == count
    return [after - before for before, after in itertools.pairwise([0.0, *since_start])]


def p99(values: list[float]) -> float:
    return sorted(values)[max(0, len(values) * 99 // 100 - 1)]


@pytest.mark.parametrize("addresses", [1, 251], ids=["of one address", "of many addresses"])
@pytest.mark.parametrize("kind", KINDS)
def test_half_open_callers_keep_no_honest_client_out(
    started: Programs,
    kind: str,
    addresses: int,
) -> None:
    count = 10_000 if LONG else 600
    allow_descriptors(count + 500)  # for this process, and for the server
    server, port = serve_echo(started, "--max-clients", 200)
    before = memory(server.pid)
    with Callers(port, count, KINDS[kind], addresses):
        times = connect_times_ms(started, port, 100)
        print(f"{kind}, {count} callers: p50 {sorted(times)[50]:.1f} ms, p99 {p99(times):.1f} ms")
        assert p99(times) < 1000
        # About a page for each caller.
        assert memory(server.pid) - before < count * 8192 + 16 * MIB
        assert descriptors(server.pid) < count + 200


def test_silent_callers_leave_descriptors_for_honest_clients(started: Programs) -> None:
    """The server may have 300 descriptors, and 600 callers want one each."""
    allow_descriptors(1000)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))

    server, port = serve_echo(started, "--max-clients", 64, preexec_fn=limit)
    with Callers(port, 600, KINDS["silent"], 1):
        times = connect_times_ms(started, port, 30)
        assert max(times) < 5000
        assert p99(times) < 1000
        assert descriptors(server.pid) <= 300
    wait_until(lambda: "Too many open files" in server.err, "the server names the shortage", alive=server)


def test_handshakes_that_stall_after_their_first_message_are_evicted(
    echo: tuple[Programs, Program, int],
) -> None:
    programs, server, port = echo
    with Proxy(port) as proxy:
        assert client(programs, proxy.port, "tcp").finish().status == 0
        recorded = bytes(proxy.recorded[0].sent[TO_SERVER])
    hello = recorded[: 5 + int.from_bytes(recorded[3:5], "big")]
    count = 2000 if LONG else 400  # more than handshakes_max
    allow_descriptors(count + 500)
    with Callers(port, count, (hello, False), 251):
        times = connect_times_ms(programs, port, 40)
        print(f"stalled handshakes: p50 {sorted(times)[20]:.1f} ms, p99 {p99(times):.1f} ms")
        assert p99(times) < 1000
    assert server.running
