# SPDX-License-Identifier: Apache-2.0
"""Programs of two users of one host talk to each other if both allow it (VERBENA_PEERS=host)."""

import re
import time
from pathlib import Path

import pytest
from users import ALICE, BOB, STRANGER, STRANGER_PROGRAM, Program, Users, wait_until

PORT = 18516
RDMACM_PORT = 7175
HOST = {"VERBENA_PEERS": "host"}


def start_server(users: Users, *command: object, **variables: object) -> Program:
    """Start one of rdma-core's ping-pongs as Alice."""
    server = users.on_nic(ALICE, *command, "-p", PORT, **variables)
    wait_until(lambda: users.listens(PORT), "the server listens", server)
    return server


def start_rping(users: Users, **variables: object) -> Program:
    server = users.on_nic(ALICE, "rping", "-s", *rping(), **variables)
    port = re.compile(rf"@verbena/{ALICE}/cm/[0-9a-f]+{RDMACM_PORT:04x}\b")
    wait_until(lambda: port.search(users.names()) is not None, "the server has its port", server)
    return server


def shared_mappings(program: Program) -> list[list[str]]:
    """The lines of /proc/PID/maps of what is mapped shared; none once the program has ended."""
    try:
        maps = Path(f"/proc/{program.pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    lines = [line.split(maxsplit=5) for line in maps.splitlines()]
    return [line for line in lines if line[1][3] == "s"]


def shared_memory(program: Program) -> list[str]:
    """The names of what the program has mapped shared."""
    return [line[-1] for line in shared_mappings(program)]


def inodes(program: Program, kind: str) -> set[str]:
    """The inode numbers of the files `verbena-KIND` that the program has mapped."""
    return {line[4] for line in shared_mappings(program) if line[-1].startswith(f"/memfd:verbena-{kind} ")}


def rings(program: Program) -> int:
    return sum("verbena-direction" in name for name in shared_memory(program))


def rping() -> list[str]:
    return ["-a", "127.0.0.1", "-p", str(RDMACM_PORT), "-C", "20", "-S", "4000", "-V"]


@pytest.mark.parametrize("options", ["-c -s 4096", "-c -s 1000000 -n 50", "-e -c -n 200", "-c -s 16 -n 5000"])
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"])
def test_messages_of_two_users_arrive_intact(users: Users, program: str, options: str) -> None:
    command = [program, "-g", "0", *options.split()]
    server = start_server(users, *command, **HOST)
    users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST).finish()
    server.finish()


@pytest.mark.parametrize("options", ["-c", "-c -e"])
def test_datagrams_of_two_users_arrive_intact(users: Users, options: str) -> None:
    command = ["ibv_ud_pingpong", "-g", "0", "-s", "512", *options.split()]
    server = start_server(users, *command, **HOST)
    users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST).finish()
    server.finish()


def test_rdma_reads_writes_and_connections_work_between_two_users(users: Users) -> None:
    for _ in range(2):
        server = start_rping(users, **HOST)
        users.on_nic(BOB, "rping", "-c", *rping(), **HOST).finish()
        server.finish()


def test_by_default_another_user_is_refused_and_the_variable_is_named(users: Users) -> None:
    server = start_rping(users)
    client = users.on_nic(BOB, "rping", "-c", *rping(), **HOST)
    client.process.wait(30)
    assert client.process.returncode != 0, str(client)
    assert f"belongs to a process of user id {ALICE}" in client.output, str(client)
    assert "VERBENA_PEERS=host" in client.output, str(client)
    users.on_nic(ALICE, "rping", "-c", *rping()).finish()
    server.finish()


def test_a_user_who_connects_and_says_nothing_keeps_no_other_user_away(users: Users) -> None:
    server = start_rping(users, **HOST)
    inodes = server.socket_inodes()
    held = [
        words[7][1:]
        for words in map(str.split, users.names().splitlines())
        if words[-1].startswith("@verbena/host/") and words[6] in inodes
    ]
    assert len(held) == 2, "the server has a public name for its port and one for its queue pairs"
    silent = [users.start(STRANGER, *STRANGER_PROGRAM, "hold", name) for name in held]
    for program in silent:
        wait_until(lambda program=program: "holds" in program.output, "connections were refused", program)
    users.on_nic(BOB, "rping", "-c", *rping(), **HOST).finish()
    server.finish()
    for program in silent:
        program.end_input()


def test_a_server_whose_public_name_another_user_holds_says_so(users: Users) -> None:
    server = start_rping(users, **HOST)
    pattern = rf"@(verbena/host/cm/[0-9a-f]+{RDMACM_PORT:04x})\b"
    found = re.search(pattern, users.names())
    assert found, users.names()
    server.process.kill()
    wait_until(lambda: not re.search(pattern, users.names()), "the name is free", users.start(STRANGER, "cat"))
    holder = users.start(STRANGER, *STRANGER_PROGRAM, "bind", found[1])
    wait_until(lambda: "bound" in holder.output, "the stranger has the name", holder)
    server = start_rping(users, VERBENA_LOG="warn", **HOST)
    users.on_nic(ALICE, "rping", "-c", *rping(), **HOST).finish()
    server.finish()
    line = f"port {RDMACM_PORT} of rdma_cm: only processes of this user reach it, because user id {STRANGER} holds"
    assert server.output.count(line) == 1, str(server)
    holder.end_input()


def test_a_user_that_allows_others_still_talks_to_its_own_programs(users: Users) -> None:
    server = start_rping(users, **HOST)
    users.on_nic(ALICE, "rping", "-c", *rping()).finish()
    server.finish()


def test_the_end_of_a_program_is_noticed_by_another_users_program(users: Users) -> None:
    """Its link is freed. If a request was under way, the program also gets an error, and ends."""
    command = ["ibv_rc_pingpong", "-g", "0", "-n", "1000000000"]
    server = start_server(users, *command, **HOST)
    client = users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST)
    wait_until(lambda: rings(server) == 2, "there is a link", server)
    client.process.kill()
    deadline = time.monotonic() + 30
    while server.process.poll() is None and rings(server) > 0:
        assert time.monotonic() < deadline, f"the link of a dead peer stays{server}"
        time.sleep(0.002)  # the pause between two checks


def test_programs_that_connect_to_each_other_at_one_moment_talk(users: Users) -> None:
    """Then they have two links, one for each direction of connecting, and may use either."""
    for _ in range(5):
        command = ["ib_write_bw", "-F", "-x", "0", "-n", "200"]
        server = start_server(users, *command, **HOST)
        users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST).finish()
        server.finish()


def test_a_sender_notices_the_end_of_another_users_program(users: Users) -> None:
    """A program that writes always has a request that is not acknowledged."""
    command = ["ib_write_bw", "-F", "-x", "0", "-D", "60"]
    server = start_server(users, *command, **HOST)
    client = users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST)
    wait_until(lambda: client.cpu_ns() > 200_000_000, "the client writes", client)
    server.process.kill()
    assert client.process.wait(30) != 0, str(client)
    assert "Failed status 12" in client.output, str(client)


def test_two_users_share_the_two_rings_and_nothing_else(users: Users) -> None:
    """No process of one user has a mapping of the other's memory besides the two rings."""
    command = ["ibv_rc_pingpong", "-g", "0", "-n", "1000000000"]
    server = start_server(users, *command, **HOST)
    client = users.on_nic(BOB, *command, "-p", PORT, "127.0.0.1", **HOST)
    wait_until(lambda: client.cpu_ns() > 200_000_000, "the client exchanges messages", client)
    wait_until(lambda: rings(server) == 2, "there is a link", server)
    mapped = {name.split()[0].removeprefix("/memfd:verbena-") for name in shared_memory(server)}
    assert mapped == {"direction", "progress", "rights", "heap"}, mapped
    # The table of rights and the heap are each process's own.
    for kind in ("rights", "heap"):
        of_server, of_client = inodes(server, kind), inodes(client, kind)
        assert len(of_server) == len(of_client) == 1 and of_server != of_client, (kind, of_server, of_client)
