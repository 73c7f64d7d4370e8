# SPDX-License-Identifier: Apache-2.0
"""Management datagrams from very many source addresses cost the victim neither memory nor time.

127.0.0.0/8 gives any user of the host 16 million addresses. 20,000 of them are used, and a million
with VERBENA_HOSTILE=long.
"""

import errno
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import AS_NOBODY, FORGER, NIC, Program, Programs, compile_program, side
from namespaces import ADDRESSES, INTERFACES, NamespacePair, NotPermitted

PORT = "20000"

SOURCES = 1_000_000 if os.environ.get("VERBENA_HOSTILE") == "long" else 20_000
LIMIT_S = 60 + SOURCES / 2000
GROWTH_MAX = 5 << 20
PATHS_MAX, PATHS_BYTES_MAX = 1024, 32 << 20
CONNECT_MAX_US = 1_000_000
# rdma_cm's number of a TCP port: the port space, then the port.
NO_LISTENER, LISTENER = (0x0106 << 16 | port for port in (19999, int(PORT)))


@pytest.mark.parametrize("service", [NO_LISTENER, LISTENER], ids=["no-listener", "listener"])
def test_requests_from_many_addresses_cost_neither_memory_nor_time(
    programs: Programs, hosts: NamespacePair, service: int
) -> None:
    """Connections that are made meanwhile and afterwards are quick, and their data is right.

    A forged request for a service that listens is accepted, and holds a queue pair until the server
    gives up waiting. So there are fewer of these, as many as a server may have connections.
    """
    sources = SOURCES if service == NO_LISTENER else 500
    server = programs.echo(side(hosts, 0), "server", ADDRESSES[0], PORT)
    near = programs.echo(side(hosts, 0), "client", ADDRESSES[0], PORT, "4")
    far = programs.echo(side(hosts, 1), "client", ADDRESSES[0], PORT, "4")
    clients = (near, far)
    for client in clients:
        client.ask("connect")
    # The first thousand make room for what is made once, for instance the receive buffers.
    first = ["requests", "0", "1000", ADDRESSES[0], str(NO_LISTENER)]
    warm_up = programs.start([*AS_NOBODY, *FORGER, *first], side(hosts, 0))
    assert warm_up.wait() == 0
    before = server.resident_bytes()
    # Each process of the host may get a stranger's datagram, and answers it or passes it on.
    sent = "counter counters/port_xmit_packets"
    sent_before = server.number(sent) + near.number(sent)

    words = ["requests", "1000", str(sources), ADDRESSES[0], str(service)]
    forger = programs.start([*AS_NOBODY, *FORGER, *words], side(hosts, 0))
    deadline, times = time.monotonic() + LIMIT_S, []
    while forger.is_running():
        assert time.monotonic() < deadline
        times += [client.number("connect") for client in clients]
    assert forger.wait() == 0, forger.errors()
    times += [client.number("connect") for client in clients]
    growth = server.resident_bytes() - before
    answers = server.number(sent) + near.number(sent) - sent_before
    typical = statistics.median(times)
    print(f"{sources} sources: {growth / 1024:.0f} KiB, connects {typical:.0f} us, {max(times)} us at most")
    assert answers > sources / 2, "a busy machine loses some datagrams"
    assert max(times) < CONNECT_MAX_US
    if service == NO_LISTENER:
        assert growth < GROWTH_MAX
    assert [client.number("ping") for client in clients] == [4, 4]
    assert (near.number("lost"), far.number("lost")) == (0, 0)


@pytest.fixture
def sprayer(programs: Programs, tmp_path: Path) -> Iterator[Program]:
    """spray.cc in a namespace with a network on which every packet is lost without an answer."""
    built = compile_program("spray.cc", tmp_path / "spray", "-libverbs")
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    # Without ARP the packets leave, and the other end drops them, because they are not for it.
    pair.ip(0, f"link set {INTERFACES[0]} arp off")
    pair.ip(0, f"address add 10.88.0.1/16 dev {INTERFACES[0]}")
    command = ["env", f"LD_PRELOAD={NIC}", str(built), f"vb_{INTERFACES[0]}", "10.88"]
    program = programs.start(command, side(pair, 0))
    assert program.line() == "ready"
    yield program
    pair.close()


def test_datagrams_to_many_addresses_do_not_gather_paths(sprayer: Program) -> None:
    """Honest peers whose addresses change: a server of datagrams answers each at its address."""
    destinations = 5000
    before = sprayer.resident_bytes()
    start = time.monotonic()
    assert sprayer.number(f"datagrams 0 {destinations}") == destinations
    took = time.monotonic() - start
    growth = sprayer.resident_bytes() - before
    print(f"{destinations} destinations: {growth / 1024:.0f} KiB, {1e6 * took / destinations:.0f} us each")
    assert growth < PATHS_BYTES_MAX


def test_a_path_beyond_a_thousand_in_use_is_refused_with_its_reason(sprayer: Program) -> None:
    before = sprayer.resident_bytes()
    assert sprayer.ask("connect 1030") == f"{PATHS_MAX} {errno.ENOSPC}"
    print(f"{PATHS_MAX} connected paths: {(sprayer.resident_bytes() - before) / 1024:.0f} KiB with their queue pairs")
    assert "1,024 paths by UDP are in use" in sprayer.errors()
    sprayer.ask("release")
    assert sprayer.ask("connect 10") == "10 0"
