# SPDX-License-Identifier: Apache-2.0
"""Another user of this host takes our socket names, or floods them with connections."""

import re
import sys
import time
from pathlib import Path

import pytest
from users import ALICE, STRANGER, STRANGER_PROGRAM, Program, Users, wait_until

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
from refusal import compile_refuse

RPING = ["-a", "127.0.0.1", "-p", "7174", "-C", "20", "-V"]
PORT = 18515
KEYED = re.compile(r"@verbena/[0-9a-f]{32}\b")
FLOOD_S = 1.0


@pytest.fixture(params=["keyring", "file"])
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that start a program whose secret is in the keyring, or in a file."""
    if request.param == "keyring":
        return []
    compiled = tmp_path_factory.mktemp("refuse")
    compile_refuse(compiled)
    return [str(compiled / "refuse"), "keyctl:EPERM", "add_key:EPERM", "--"]


def start_stranger(users: Users, *words: object, says: str) -> Program:
    program = users.start(STRANGER, *STRANGER_PROGRAM, *words)
    wait_until(lambda: says in program.output, f"the stranger prints {says}", program)
    return program


def pingpong(users: Users, *words: str, before: list[str] | None = None) -> None:
    """Exchange messages and verify their bytes."""
    command = ["ibv_rc_pingpong", "-g", "0", "-c", "-p", PORT, *words]
    server = users.on_nic(ALICE, *command, before=before)
    wait_until(lambda: users.listens(PORT), "the server listens", server)
    client = users.on_nic(ALICE, *command, "127.0.0.1", before=before)
    client.finish()
    server.finish()


def has_port(users: Users) -> bool:
    return re.search(rf"@verbena/{ALICE}/cm/[0-9a-f]+{7174:04x}\b", users.names()) is not None


def keyed_names(users: Users, owner: Program) -> set[str]:
    """The keyed names at which a process listens."""
    inodes = owner.socket_inodes()
    lines = (line.split() for line in users.names().splitlines()[1:])
    return {words[7] for words in lines if len(words) == 8 and words[6] in inodes and KEYED.fullmatch(words[7])}


def serve_once(users: Users, squatter: Program, before: list[str]) -> None:
    """Let a client talk to a server, and wait until the stranger has the server's names."""
    server = users.on_nic(ALICE, "rping", "-s", *RPING, before=before)
    # One of its port, one of its block of numbers.
    wait_until(lambda: len(keyed_names(users, server)) == 2, "the server has names", server)
    names = keyed_names(users, server)
    # Its names must not be gone before a busy machine lets the stranger look for them.
    wait_until(lambda: all(f"saw {name[1:]}\n" in squatter.output for name in names), "they are seen", squatter)
    client = users.on_nic(ALICE, "rping", "-c", *RPING, before=before)
    client.finish()
    server.finish()
    wait_until(lambda: keyed_names(users, squatter) >= names, "they are taken", squatter)


def test_programs_work_while_another_user_takes_each_name_that_it_can_know(users: Users, before: list[str]) -> None:
    """The stranger holds every plain name, and each keyed name as soon as its owner has ended."""
    squatter = start_stranger(users, "squat", ALICE, says="squatted")
    pingpong(users, "-n", "500", before=before)
    for _ in range(3):
        serve_once(users, squatter, before)
    squatter.end_input()


def test_a_flood_of_connections_costs_an_idle_program_little_time_and_no_descriptors(users: Users) -> None:
    server = users.on_nic(ALICE, "rping", "-s", *RPING)
    wait_until(lambda: has_port(users), "the server has its port", server)
    descriptors = server.descriptors()
    flooder = start_stranger(users, "flood", says="floods")
    start, cpu_ns, most = time.monotonic(), server.cpu_ns(), 0
    while time.monotonic() < start + FLOOD_S:
        most = max(most, server.descriptors())
    spent = (server.cpu_ns() - cpu_ns) / (time.monotonic() - start) / 1e9
    client = users.on_nic(ALICE, "rping", "-c", *RPING)
    client.finish()
    server.finish()
    connections = int(flooder.end_input().output.split()[-1])
    assert connections > 1000
    assert most <= descriptors + 2, "a stranger's connection is closed as soon as it was accepted"
    assert spent < 0.2, f"{spent:.0%} of a processor is spent on refusing"


def test_messages_are_exchanged_during_a_flood_of_connections(users: Users) -> None:
    bystander = users.on_nic(ALICE, "rping", "-s", *RPING)
    wait_until(lambda: has_port(users), "there are names to connect to", bystander)
    flooder = start_stranger(users, "flood", says="floods")
    pingpong(users, "-n", "5000")
    pingpong(users, "-n", "500", "-e")
    flooder.end_input()
