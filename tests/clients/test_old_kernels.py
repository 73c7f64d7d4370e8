# SPDX-License-Identifier: Apache-2.0
"""On a kernel, or under a filter of a container, that lacks one of the newer system calls, the NIC
works all the same, and an idle program uses no processor time.

tests/old_kernels/refuse.c installs the filter and runs the program.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Command, Network, Runner, free_port, listens, run_pair
from namespaces import ADDRESSES, NamespacePair

SEALS = ["fcntl:1=1033:EPERM"]  # F_ADD_SEALS
RULES = {
    "epoll_pwait2": ["epoll_pwait2:ENOSYS"],
    "epoll_pwait2 by a filter": ["epoll_pwait2:EPERM"],
    "pidfd_open": ["pidfd_open:ENOSYS"],
    "seals": SEALS,
    "seals of an old kernel": ["fcntl:1=1033:EINVAL"],
    "memfd_create": ["memfd_create:ENOSYS"],
    "getrandom": ["getrandom:ENOSYS"],
    "getrandom by a filter": ["getrandom:EPERM"],
    "SO_NETNS_COOKIE": ["getsockopt:1=1:2=71:ENOPROTOOPT"],
    "io_uring": ["io_uring_setup:ENOSYS"],
    "membarrier and userfaultfd": ["membarrier:ENOSYS", "userfaultfd:ENOSYS"],
}
ACROSS = {
    "epoll_pwait2": RULES["epoll_pwait2"],
    "UDP_SEGMENT": ["getsockopt:1=17:2=103:ENOPROTOOPT", "setsockopt:1=17:2=103:ENOPROTOOPT"],
    "UDP_GRO": ["setsockopt:1=17:2=104:ENOPROTOOPT"],
}
# Where another device works, the loopback must be asked for.
ON_LOOPBACK = ["env", "VERBENA_DEVICES=vb_lo", "ibv_rc_pingpong", "-d", "vb_lo"]
WATCHED_S = 2.0
SHARE_MAX = 0.005
LIMIT_S = 30


@pytest.fixture(scope="module")
def refuse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    program = tmp_path_factory.mktemp("refuse") / "refuse"
    source = Path(__file__).resolve().parents[1] / "old_kernels" / "refuse.c"
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True)
    yield program


def without(refuse: Path, rules: list[str], command: Command) -> Command:
    return [str(refuse), *rules, "--", *command]


@pytest.mark.parametrize("mode", [[], ["-e"]], ids=["polled", "events"])
@pytest.mark.parametrize("missing", RULES)
def test_rc_pingpong_works_without(runner: Runner, refuse: Path, missing: str, mode: list[str]) -> None:
    port = free_port()
    program = [*ON_LOOPBACK, "-g", "0", "-n", "200", "-c", "-p", str(port), *mode]
    server = without(refuse, RULES[missing], program)
    client = without(refuse, RULES[missing], [*program, "127.0.0.1"])
    run_pair(runner, server, client, port=port).check()


@pytest.mark.parametrize("mode", [[], ["-e"]], ids=["polled", "events"])
@pytest.mark.parametrize("missing", ACROSS)
def test_rc_pingpong_works_between_two_hosts_without(
    runner: Runner,
    refuse: Path,
    namespaces_of_mtu: Callable[[int], NamespacePair],
    missing: str,
    mode: list[str],
) -> None:
    wire = namespaces_of_mtu(1500)
    port = free_port()
    program = ["ibv_rc_pingpong", "-g", "0", "-n", "50", "-s", "20000", "-c", "-p", str(port), *mode]
    sides: tuple[Network, Network] = (lambda inner: wire.inside(0, inner), lambda inner: wire.inside(1, inner))
    run_pair(
        runner,
        without(refuse, ACROSS[missing], program),
        without(refuse, ACROSS[missing], [*program, ADDRESSES[0]]),
        port=port,
        networks=sides,
    ).check()


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_asleep(pid: int) -> bool:
    """Every thread of the process sleeps."""
    states = [path.read_text().rsplit(")", 1)[1].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "S" for state in states)


@pytest.mark.parametrize("missing", ["epoll_pwait2", "epoll_pwait2 by a filter"])
def test_a_waiting_server_uses_no_processor_time_without(runner: Runner, refuse: Path, missing: str) -> None:
    port = free_port()
    command = without(refuse, RULES[missing], [*ON_LOOPBACK, "-e", "-g", "0", "-p", str(port)])
    process, _ = runner.start(command)
    deadline = time.monotonic() + LIMIT_S
    while not (listens(process.pid, port) and is_asleep(process.pid)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)  # a pause between two looks
    used = processor_s(process.pid)
    start = time.monotonic()
    while time.monotonic() - start < WATCHED_S:
        time.sleep(0.1)  # the time that is measured
    assert processor_s(process.pid) - used <= SHARE_MAX * (time.monotonic() - start) + 1 / os.sysconf("SC_CLK_TCK")


def test_rping_works_without_epoll_pwait2(runner: Runner, refuse: Path) -> None:
    address = ["-a", "127.0.0.1", "-p", str(free_port()), "-C", "10"]
    server = runner.start(without(refuse, RULES["epoll_pwait2"], ["rping", "-s", *address]))
    client_command = without(refuse, RULES["epoll_pwait2"], ["rping", "-c", *address])
    deadline = time.monotonic() + LIMIT_S
    while True:  # the client is refused until the server listens
        client = runner.finish(*runner.start(client_command), client_command, deadline)
        if client.status == 0 or time.monotonic() > deadline:
            break
    assert client.status == 0, client
    assert runner.finish(*server, ["rping", "-s"], deadline).status == 0
