# SPDX-License-Identifier: Apache-2.0
"""Several processes of one user on a host share UDP port 4791. The kernel may deliver a packet to
any of them, and that process passes it on to the owner of its queue pair.
"""

import time

import pytest
from conftest import LIMIT_S, Ran, Runner, free_port, listens
from namespaces import ADDRESSES, NamespacePair

PAIRS = 4


@pytest.mark.parametrize(
    "program",
    [
        ["ibv_rc_pingpong", "-g", "0", "-n", "300"],
        ["ibv_rc_pingpong", "-g", "0", "-n", "300", "-e"],
        # A lost datagram is not repeated, and a process that ends loses the datagrams that it had
        # to pass on. With this many iterations all processes run at the same time.
        ["ibv_ud_pingpong", "-g", "0", "-n", "3000", "-s", "1000"],
        ["ib_write_bw", "-F", "-x", "0", "-n", "200"],
    ],
    ids=" ".join,
)
def test_four_servers_and_four_clients_at_once(runner: Runner, netns_pair: NamespacePair, program: list[str]) -> None:
    run_at_once(runner, netns_pair, program)


# The answer may reach any of the processes, which passes it on to the one that asked.
def test_each_process_learns_how_much_room_its_peer_has(runner: Runner, netns_pair: NamespacePair) -> None:
    runner.way = [*runner.way, "VERBENA_LOG=debug"]
    for ran in run_at_once(runner, netns_pair, ["ib_write_bw", "-F", "-x", "0", "-n", "500"]):
        assert "has room for" in ran.output, ran


def run_at_once(runner: Runner, wire: NamespacePair, program: list[str]) -> list[Ran]:
    """Run PAIRS servers on one host and their clients on the other; all must succeed."""
    deadline = time.monotonic() + LIMIT_S
    commands = [[*program, "-p", str(free_port())] for _ in range(PAIRS)]
    servers = [(*runner.start(command, lambda inner: wire.inside(0, inner)), command) for command in commands]
    for process, _, command in servers:
        while not listens(process.pid, int(command[-1])):
            assert process.poll() is None and time.monotonic() < deadline, f"no server: {command}"
    clients = [
        (*runner.start([*command, ADDRESSES[0]], lambda inner: wire.inside(1, inner)), command) for command in commands
    ]
    all_ran = [runner.finish(process, log, command, deadline) for process, log, command in [*clients, *servers]]
    for ran in all_ran:
        assert ran.status == 0, f"\n{ran}"
    return all_ran
