# SPDX-License-Identifier: Apache-2.0
"""Another user forges messages about rdma_cm connections, over UDP: the connections go on."""

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import AS_NOBODY, FORGER, LIMIT_S, Network, Program, Programs, side
from forger import KINDS
from namespaces import ADDRESSES, INTERFACES, NamespacePair

PORT = "20000"
# The numbers of connections are random, and a scan of all takes long. With 1,024 connections, a
# 64th of the numbers misses all of them in one of 10^7 runs.
CONNECTIONS, SCANNED = 1024, 1 << 14
FORGED = ["DREQ", "REJ", "REP", "RTU"]


def block_of(pid: int) -> int:
    """The block of numbers that the process owns, which every user of the host can read.

    The names in /proc/net/unix have no pid, but the descriptors of a process have inodes.
    """
    inodes = {
        link[8:-1]
        for link in (str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir())
        if link.startswith("socket:[")
    }
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines():
        named = re.search(r" (\d+) @verbena/.*qp/(\d+)$", line)
        if named and named[1] in inodes:
            return int(named[2])
    raise AssertionError(f"process {pid} has no block of queue pair numbers")


def attack(network: Network, *words: str) -> None:
    ran = subprocess.run(
        network([*AS_NOBODY, *FORGER, *words]), check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr


def mismatched(program: Program) -> int:
    return program.number("counter hw_counters/cm_mismatched")


@pytest.mark.parametrize("source", ["127.0.0.1", ADDRESSES[0]], ids=["loopback", "interface"])
def test_forgeries_from_this_host_do_not_reach_connections_of_shared_memory(
    programs: Programs, hosts: NamespacePair, source: str
) -> None:
    here = side(hosts, 0)
    server = programs.echo(here, "server", source, PORT)
    client = programs.echo(here, "client", source, PORT, str(CONNECTIONS))
    for victim in (server, client):
        assert client.number("ping") == CONNECTIONS
        attack(here, "scan", source, source, str(block_of(victim.pid)), "0", str(SCANNED), *FORGED)
        assert client.number("ping") == CONNECTIONS
        assert mismatched(victim) >= len(FORGED), "the scan hit at least one connection"
        assert (server.number("lost"), client.number("lost")) == (0, 0)


class Messages:
    """The messages that crossed the wire between two hosts, by kind."""

    def __init__(self, programs: Programs, hosts: NamespacePair) -> None:
        self._watcher = programs.start([*FORGER, "watch", INTERFACES[0]], side(hosts, 0))
        assert json.loads(self._watcher.line()) == {"kind": "watching"}

    def next(self, kind: str) -> dict[str, int]:
        while True:
            found = json.loads(self._watcher.line())
            if found["kind"] == kind:
                return found


@pytest.fixture
def forge(hosts: NamespacePair) -> Callable[..., None]:
    """Send a message to the server from the client's own address, as another user of its host."""

    def send(**fields: object) -> None:
        attack(side(hosts, 1), "send", ADDRESSES[1], ADDRESSES[0], json.dumps(fields))

    return send


def test_forgeries_from_the_peers_address_need_every_number_of_the_connection(
    programs: Programs, hosts: NamespacePair, forge: Callable[..., None]
) -> None:
    messages = Messages(programs, hosts)
    server = programs.echo(side(hosts, 0), "server", ADDRESSES[0], PORT, VERBENA_LOG="warn")
    client = programs.echo(side(hosts, 1), "client", ADDRESSES[0], PORT, "1")
    req, rep = messages.next("REQ"), messages.next("REP")
    right = {"local": req["local"], "remote": rep["local"]}
    guesses = [
        {"kind": "DREQ", **right, "local": 0, "qpn": rep["qpn"]},
        {"kind": "DREQ", **right, "local": req["local"] ^ 1, "qpn": rep["qpn"]},
        {"kind": "DREQ", **right, "qpn": 0},
        {"kind": "DREQ", **right, "qpn": rep["qpn"] ^ 1},
        *({"kind": kind, **right, "local": 0, "transaction": req["transaction"]} for kind in ("REJ", "REP", "RTU")),
    ]
    assert {guess["kind"] for guess in guesses} <= set(KINDS.values())
    for count, guess in enumerate(guesses, 1):
        forge(**guess)
        assert client.number("ping") == 1, guess
        assert mismatched(server) == count, guess
    assert (server.number("lost"), client.number("lost")) == (0, 0)
    assert "message about an rdma_cm connection had the wrong queue pair number" in server.errors()

    # The forger is not broken: with every number right it can end the connection.
    forge(kind="DREQ", **right, qpn=rep["qpn"])
    messages.next("DREP")
    deadline = time.monotonic() + LIMIT_S
    while server.number("lost") == 0:
        assert time.monotonic() < deadline


def test_a_connection_can_be_made_while_answers_are_forged(
    programs: Programs, hosts: NamespacePair, forge: Callable[..., None]
) -> None:
    """A forged REJ, REP or RTU would have its effect while the real one is awaited."""
    server = programs.echo(side(hosts, 0), "server", ADDRESSES[0], PORT)
    client = programs.echo(side(hosts, 1), "client", ADDRESSES[0], PORT, "1")
    first = str(0)
    for victim, network, source, destination in (
        (server, side(hosts, 1), ADDRESSES[1], ADDRESSES[0]),
        (client, side(hosts, 0), ADDRESSES[0], ADDRESSES[1]),
    ):
        words = ["scan", source, destination, str(block_of(victim.pid)), first, "20000", *FORGED[1:]]
        forger = programs.start([*AS_NOBODY, *FORGER, *words], network)
        times = [client.number("connect")]
        while forger.is_running():
            times.append(client.number("connect"))
        assert forger.wait() == 0
        assert max(times) < 1_000_000
        assert client.number("ping") == 1
