# SPDX-License-Identifier: Apache-2.0
"""Debian's programs for rdma_cm and rsockets, on the distribution's librdmacm.

They run on one host and between two hosts. Between two hosts the wire must have carried at least
the bytes that they say they sent.
"""

import random
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import lossy_wire as tun
import pytest
from conftest import LIMIT_S, Command, Network, PairRan, Ran, Runner
from namespaces import ADDRESSES, INTERFACES, NamespacePair, NotPermitted
from perftest_output import check_result

ITERATIONS = 100


@dataclass
class Place:
    """The namespaces in which server and client run, and the server's address."""

    wire: NamespacePair
    client_side: int
    address: str

    def network(self, side: int) -> Network:
        return lambda command: self.wire.inside(side, command)

    def sent(self) -> list[int]:
        return [self.wire.sent_bytes(side) for side in (0, 1)]


@pytest.fixture(params=["127.0.0.1", "::1", "two hosts"])
def place(request: pytest.FixtureRequest, namespaces_of_mtu: Callable[[int], NamespacePair]) -> Place:
    """The one-host cases run in a namespace too, because some programs have fixed ports."""
    wire = namespaces_of_mtu(1500)
    return Place(wire, 1, ADDRESSES[0]) if request.param == "two hosts" else Place(wire, 0, request.param)


def has_port(pid: int, port: int) -> bool:
    """Whether a process in the network namespace of `pid` has this rdma_cm port.

    The owner of a port holds the abstract socket name @verbena/USER/cm/SERVICE (decision 13).
    """
    names = re.findall(r"@verbena/\d+/cm/([0-9a-f]+)$", Path(f"/proc/{pid}/net/unix").read_text(), re.MULTILINE)
    return any(int(service, 16) & 0xFFFF == port for service in names)


def has_udp_port(pid: int, port: int) -> bool:
    return any(f":{port:04X} " in Path(f"/proc/{pid}/net/{table}").read_text() for table in ("udp", "udp6"))


def start_server(
    runner: Runner,
    place: Place,
    command: Command,
    port: int,
    deadline: float,
    is_there: Callable[[int, int], bool] = has_port,
) -> tuple[subprocess.Popen[bytes], Callable[[], Ran]]:
    """Start the server and wait until it has its port.

    Returns the process and a function that waits for its end.
    """
    process, log = runner.start(command, place.network(0))
    while not is_there(process.pid, port):
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(
                f"the server did not bind port {port}\n{runner.finish(process, log, command, time.monotonic())}"
            )
    return process, lambda: runner.finish(process, log, command, deadline)


def run_client(runner: Runner, place: Place, command: Command, deadline: float) -> Ran:
    """Run one client, once: the NIC repeats a request that comes before the server listens."""
    return runner.finish(*runner.start(command, place.network(place.client_side)), command, deadline)


def run(runner: Runner, place: Place, server: Command, client: Command, port: int, limit_s: float = LIMIT_S) -> PairRan:
    """Run server and client, once; both must succeed.

    With -R, perftest listens twice, first to exchange its parameters. Its client asks for the
    second connection before the server listens again.
    """
    deadline = time.monotonic() + limit_s
    _, server_end = start_server(runner, place, server, port, deadline)
    client_ran = run_client(runner, place, client, deadline)
    if client_ran.status != 0:
        pytest.fail(f"\n{client_ran}")
    return PairRan(server_end(), client_ran).check()


def check_crossed(place: Place, before: list[int], payload: tuple[int, int]) -> None:
    """Between two hosts: each side has sent at least its payload (server, client) over the wire."""
    if place.client_side == 0:
        return
    for side, (old, new, least) in enumerate(zip(before, place.sent(), payload, strict=True)):
        assert new - old > least, f"side {side} sent {new - old} bytes, its payload alone has {least}"


@dataclass
class Row:
    """One pair of programs and the result that they must have.

    server, client  the commands; {} stands for the server's address
    said            text that both must print
    payload         the least number of bytes that the server and the client send
    limit_s         the time that both have
    """

    server: str
    client: str
    said: str
    payload: tuple[int, int]
    port: int = 20000
    limit_s: float = LIMIT_S

    def run(self, runner: Runner, place: Place) -> PairRan:
        before = place.sent()
        server, client = (command.format(place.address).split() for command in (self.server, self.client))
        ran = run(runner, place, server, client, self.port, self.limit_s)
        assert self.said in ran.server.output and self.said in ran.client.output, f"\n{ran}"
        check_crossed(place, before, self.payload)
        return ran


def cmatose(options: str, payload: int) -> Row:
    return Row(
        f"ucmatose -b {{}} -p 20000 {options}",
        f"ucmatose -s {{}} -p 20000 {options}",
        "return status 0",
        (payload, payload),
    )


def stream(program: str, options: str, payload: int) -> Row:
    return Row(f"{program} -b {{}} -p 20000 {options}", f"{program} -s {{}} -p 20000 {options}", "", (payload, payload))


ROWS = {
    "ucmatose": cmatose("", 1000),
    "ucmatose, 10 connections with a type of service": cmatose("-c 10 -t 8 -C 20", 20000),
    "ucmatose, ids that migrate": cmatose("-c 4 -m", 4000),
    "ucmatose, 64 kB messages": cmatose("-C 5 -S 64000", 320000),
    "udaddy": Row("udaddy -b {}", "udaddy -s {}", "return status 0", (1000, 1000), 7174),
    "udaddy, 5 at once": Row(
        "udaddy -b {} -c 5 -C 20", "udaddy -s {} -c 5 -C 20", "return status 0", (10000, 10000), 7174
    ),
    "rdma_client": Row("rdma_server -s {} -p 20000", "rdma_client -s {} -p 20000", "end 0", (16, 16)),
}
STREAMS = {
    "rstream": stream("rstream", "-S 4096 -C 10 -I 20", 200 * 4096),
    "rstream, verified": stream("rstream", "-S 1000000 -C 1 -I 3 -T v", 3000000),
    "rstream, blocking": stream("rstream", "-S 5000 -C 10 -I 5 -T b", 250000),
    "riostream": stream("riostream", "-S 4096 -C 10 -I 20", 200 * 4096),
    "riostream, verified": stream("riostream", "-S 65536 -C 1 -I 5 -T v", 5 * 65536),
}
STREAMED = re.compile(r"^\w+ +[\w.]+ +\w+ +\w+ +[\w.]+ +\d+\.\d+s +\d+\.\d+ +\d+\.\d+$", re.MULTILINE)


@pytest.mark.parametrize("name", ROWS)
def test_the_program_succeeds_and_its_bytes_cross_the_wire(runner: Runner, place: Place, name: str) -> None:
    ROWS[name].run(runner, place)


@pytest.mark.parametrize("name", STREAMS)
def test_the_rsocket_streams(runner: Runner, place: Place, name: str) -> None:
    ran = STREAMS[name].run(runner, place)
    assert len(STREAMED.findall(ran.client.output)) == 1, f"\n{ran}"


# 100,000 round trips take too long over a wire.
@pytest.mark.parametrize("place", ["127.0.0.1"], indirect=True)
@pytest.mark.parametrize("program", ["rstream", "riostream"])
def test_the_rsocket_streams_with_their_default_sizes(runner: Runner, place: Place, program: str) -> None:
    # Each of riostream's 100,000 round trips waits for the other side's progress thread, and so for
    # a processor. Beside other programs they took up to 60 s.
    ran = replace(stream(program, "", 0), limit_s=240).run(runner, place)
    assert len(STREAMED.findall(ran.client.output)) >= 8, f"\n{ran}"


@pytest.mark.parametrize("options", ["-S 64", "-S 1000", "-S 64000", "-S 4096 -q"])
def test_rping_prints_its_data_at_both_ends_and_sends_it_over_the_wire(
    runner: Runner, place: Place, options: str
) -> None:
    both = f"-a {{}} -p 20000 -C 10 -v -V {options}"
    payload = 10 * int(options.split()[1])
    ran = Row(f"rping -s {both}", f"rping -c {both}", "ping data: rdma-ping-9: ", (payload, payload)).run(runner, place)
    for side in (ran.server, ran.client):
        assert re.findall(r"ping data: rdma-ping-(\d+): ", side.output) == [str(i) for i in range(10)], f"\n{ran}"


def rping_finds_its_server(runner: Runner, wire: NamespacePair, address: str) -> None:
    options = ["-a", address, "-p", "20000", "-C", "3", "-v"]
    ran = run(runner, Place(wire, 1, address), ["rping", "-s", *options], ["rping", "-c", *options], 20000)
    assert "ping data: rdma-ping-2: " in ran.client.output, f"\n{ran}"


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_an_address_behind_a_tun_interface_resolves_without_a_neighbour(runner: Runner, family: str) -> None:
    """A point-to-point interface, like WireGuard: the kernel keeps no neighbours for it."""
    try:
        with tun.lossy_wire(0.0) as wire:
            for side in (0, 1):
                wire.ip(side, f"address add fd78::{side + 1}/64 dev {tun.NAME} nodad")
            rping_finds_its_server(runner, wire, tun.ADDRESSES[0] if family == "IPv4" else "fd78::1")
    except NotPermitted as refusal:
        pytest.skip(f"no tun interfaces here: {refusal}")


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_an_address_behind_an_interface_without_arp_resolves(runner: Runner, family: str) -> None:
    """Without ARP, the kernel sends to the interface's own MAC, so both ends have the same one."""
    try:
        wire = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    try:
        for side in (0, 1):
            wire.ip(side, f"link set {INTERFACES[side]} down")
            wire.ip(side, f"link set {INTERFACES[side]} address 02:00:00:00:00:07 arp off up")
            wire.ip(side, f"address add fd77::{side + 1}/64 dev {INTERFACES[side]} nodad")
        rping_finds_its_server(runner, wire, ADDRESSES[0] if family == "IPv4" else "fd77::1")
    finally:
        wire.close()


def test_a_persistent_rping_server_serves_one_after_the_other(runner: Runner, place: Place) -> None:
    deadline = time.monotonic() + LIMIT_S
    start_server(runner, place, ["rping", "-s", "-P", "-a", place.address, "-p", "20000"], 20000, deadline)
    command = ["rping", "-c", "-a", place.address, "-p", "20000", "-C", "20", "-v", "-V"]
    ran = [run_client(runner, place, command, deadline) for _ in range(5)]
    for client in ran:
        assert client.status == 0 and client.output.count("ping data: rdma-ping-") == 20, f"\n{client}"


def test_cmtime_times_a_hundred_connections(runner: Runner, place: Place) -> None:
    deadline = time.monotonic() + LIMIT_S
    # The server does not end by itself; the fixture kills it.
    start_server(runner, place, ["cmtime", "-b", place.address, "-p", "20000", "-c", "100"], 20000, deadline)
    client = run_client(runner, place, ["cmtime", "-s", place.address, "-p", "20000", "-c", "100"], deadline)
    steps = re.findall(r"^([a-z ]+?) *: +\d+\.\d+ +\d+\.\d+", client.output, re.MULTILINE)
    assert client.status == 0, f"\n{client}"
    assert steps == ["create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"], (
        f"\n{client}"
    )


# Not ::1, because rcopy ends the server's name at the first colon.
@pytest.mark.parametrize("place", ["127.0.0.1", "two hosts"], indirect=True)
def test_rcopy_copies_a_file(runner: Runner, place: Place, tmp_path: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    content = random.Random(1).randbytes(3_000_000)
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(content)
    before = place.sent()
    start_server(runner, place, ["rcopy", "-p", "20000"], 20000, deadline)
    client = run_client(runner, place, ["rcopy", str(source), f"{place.address}:{copy}", "-p", "20000"], deadline)
    assert client.status == 0 and f"{len(content)} bytes in" in client.output, f"\n{client}"
    assert copy.read_bytes() == content
    check_crossed(place, before, (0, len(content)))


@pytest.mark.parametrize("place", ["127.0.0.1", "two hosts"], indirect=True)
@pytest.mark.parametrize(
    ("command", "payload"),
    [
        ("ib_send_bw -s 65536", (0, ITERATIONS * 65536)),
        ("ib_send_bw -s 1024 -c UD", (0, ITERATIONS * 1024)),
        ("ib_send_lat -s 1024 -c UD", (ITERATIONS * 1024, ITERATIONS * 1024)),
        ("ib_write_lat -s 1024", (ITERATIONS * 1024, ITERATIONS * 1024)),
        ("ib_write_bw -s 65536", (0, ITERATIONS * 65536)),
        ("ib_read_bw -s 65536", (ITERATIONS * 65536, 0)),
        ("ib_send_lat -s 1024", (ITERATIONS * 1024, ITERATIONS * 1024)),
        ("ib_read_lat -s 1024", (ITERATIONS * 1024, 0)),
    ],
)
def test_perftest_over_rdma_cm(runner: Runner, place: Place, command: str, payload: tuple[int, int]) -> None:
    both = f"{command} -R -F -n {ITERATIONS} -p 20000"
    ran = Row(both, f"{both} {{}}", "rdma_cm QPs", payload).run(runner, place)
    check_result(command.split()[0], ran.client.output, ITERATIONS)


@pytest.mark.parametrize("place", ["127.0.0.1", "two hosts"], indirect=True)
@pytest.mark.parametrize("program", ["ib_atomic_bw", "ib_atomic_lat"])
def test_atomics_over_rdma_cm(runner: Runner, place: Place, program: str) -> None:
    both = f"{program} -R -F -n {ITERATIONS} -p 20000"
    ran = Row(both, f"{both} {{}}", "rdma_cm QPs", (0, 0)).run(runner, place)
    check_result(program, ran.client.output, ITERATIONS)


def test_the_datagram_rsocket_pings(runner: Runner, place: Place) -> None:
    deadline = time.monotonic() + LIMIT_S
    before = place.sent()
    # The server does not end by itself; the fixture kills it.
    start_server(runner, place, ["udpong", "-b", place.address, "-S", "100", "-C", "200"], 7174, deadline, has_udp_port)
    client = run_client(runner, place, ["udpong", "-s", place.address, "-S", "100", "-C", "200"], deadline)
    assert client.status == 0 and re.search(r"^custom +100 +200 ", client.output, re.MULTILINE), f"\n{client}"
    check_crossed(place, before, (0, 200 * 100))


@pytest.mark.parametrize("place", ["127.0.0.1", "two hosts"], indirect=True)
def test_a_multicast_group_receives_the_messages_of_its_sender(runner: Runner, place: Place) -> None:
    """The receiver ends when it has received all messages."""
    group = ["mckey", "-m", "239.1.2.3", "-C", "20", "-S", "500"]
    here = ADDRESSES[1] if place.client_side == 1 else place.address
    deadline = time.monotonic() + LIMIT_S
    receiver, log = runner.start([*group, "-b", place.address], place.network(0))
    # Messages sent before the receiver has joined are lost. The kernel lists its membership
    # (239.1.2.3).
    while "030201EF" not in Path(f"/proc/{receiver.pid}/net/igmp").read_text():
        assert receiver.poll() is None and time.monotonic() < deadline, runner.finish(
            receiver, log, group, time.monotonic()
        )
    sender = run_client(runner, place, [*group, "-b", here, "-s"], deadline)
    ran = PairRan(runner.finish(receiver, log, group, deadline), sender).check()
    assert "data transfers complete" in ran.server.output and "data transfers complete" in ran.client.output, f"\n{ran}"
