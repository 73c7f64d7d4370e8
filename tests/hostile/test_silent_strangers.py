# SPDX-License-Identifier: Apache-2.0
"""A server that admits other users (VERBENA_PEERS=host) does not wait long for those who do not
answer."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import compile_program
from users import ALICE, BOB, BUILD, NIC, STRANGER, Program, Users, wait_until

PORT = 18571
HOST = {"VERBENA_PEERS": "host", "HOME": "/nonexistent"}


@pytest.fixture
def silent_accept() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # for the stranger
        yield compile_program("silent_accept.cc", Path(folder) / "silent_accept.so", "-shared", "-fPIC")


def clients(users: Users, user: int, count: int, preload: str) -> Program:
    words = ["--insecure", "-s", f"127.0.0.1:{PORT}", "-c", count, "-n", 3]
    return users.start(user, BUILD / "performance_test", *words, LD_PRELOAD=preload, **HOST)


def test_silent_processes_of_a_user_cost_a_server_two_seconds_and_not_two_each(
    users: Users, silent_accept: Path
) -> None:
    """Each queue pair to such a process took 2 s of the thread on which the server connects."""
    server = users.on_nic(ALICE, BUILD / "echo_server", "--insecure", "--port", PORT, **HOST)
    wait_until(lambda: users.listens(PORT), "the server listens", server)
    silent = [clients(users, STRANGER, 20, f"{silent_accept}:{NIC}") for _ in range(3)]
    wait_until(lambda: "refused: ibv_modify_qp" in server.output, "a stranger was waited for", server)
    began = time.monotonic()
    while any(each.process.poll() is None for each in silent) or time.monotonic() < began + 0.5:
        clients(users, BOB, 10, str(NIC)).finish()
    took_s = time.monotonic() - began
    assert took_s < 30, f"60 queue pairs at 2 s each would take 120 s; {took_s:.1f} s{server}"
    for each in silent:
        assert "0 of 20 clients are connected" in each.output, str(each)
    assert server.process.poll() is None, str(server)
