# SPDX-License-Identifier: Apache-2.0
"""Programs of two users of one host talk to other hosts at the same time (VERBENA_PEERS=host).

Alice's programs have UDP port 4791 of the first host. They pass on what arrives for Bob's.
"""

import contextlib
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from naks import build
from users import (
    ADDRESSES,
    ALICE,
    BOB,
    LIMIT_S,
    STRANGER,
    Program,
    Users,
    wait_until,
)

HOST = {"VERBENA_PEERS": "host"}
PORT, OTHER_PORT = 18517, 18518
RDMACM_PORT, ALICES_RDMACM_PORT = 7176, 7177
# The ACK timeout is a second: a process that passes packets on may wait for a processor.
PERFTEST = "-F -x 0 -u 18"
HERE, FAR = 0, 1  # the sides of the wire; both users are at the first
USERS = {HERE: BOB, FAR: ALICE}
both_directions = pytest.mark.parametrize("listener", [FAR, HERE], ids=["bob connects", "bob listens"])


@pytest.fixture(scope="module")
def garbage() -> Iterator[Path]:
    """The program garbage.cc, where every user may run it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield build("garbage", Path(folder), "-libverbs")


def start_server(users: Users, user: int, *command: object, port: int, side: int, **variables: object) -> Program:
    """Start the side that listens of a program of perftest or of the examples of rdma-core."""
    server = users.on_nic(user, *command, "-p", port, side=side, **variables)
    wait_until(lambda: users.listens(port, side), "the server listens", server)
    return server


def start_pair(users: Users, command: str, listener: int, **variables: object) -> tuple[Program, Program]:
    """Start a program of Bob's and its other side on the other host."""
    words = command.split()
    server = start_server(users, USERS[listener], *words, port=PORT, side=listener, **variables)
    other = 1 - listener
    client = users.on_nic(USERS[other], *words, "-p", PORT, ADDRESSES[listener], side=other, **variables)
    return (server, client) if listener == HERE else (client, server)


def finish(*programs: Program) -> None:
    """Wait for the ends; all programs must succeed."""
    deadline = time.monotonic() + LIMIT_S
    for program in programs:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.process.wait(max(0.0, deadline - time.monotonic()))
    assert all(program.process.returncode == 0 for program in programs), "".join(map(str, programs))


def rping(address: str, port: int) -> list[str]:
    return ["-a", address, "-p", str(port), "-C", "20", "-S", "4000", "-V"]


def start_rping(users: Users, user: int, side: int, port: int, **variables: object) -> Program:
    server = users.on_nic(user, "rping", "-s", *rping(ADDRESSES[side], port), side=side, **variables)
    name = re.compile(rf"@verbena/{user}/cm/[0-9a-f]+{port:04x}\b")
    wait_until(lambda: name.search(users.names(side)) is not None, "the server has its port", server)
    return server


def port_holders(users: Users) -> set[int]:
    """The users that have UDP port 4791 of the first host."""
    table = Path(f"/proc/{users.wire.holder(HERE)}/net/udp").read_text().splitlines()[1:]
    return {int(line.split()[7]) for line in table if line.split()[1].endswith(":12B7")}


def public_block(users: Users, program: Program) -> int:
    """The first block of queue pair numbers of a program that admits other users."""
    inodes = program.socket_inodes()
    for words in map(str.split, users.names(HERE).splitlines()):
        if words[6] in inodes and (found := re.fullmatch(r"@verbena/host/qp/(\d+)", words[-1])):
            return int(found[1])
    raise AssertionError(f"it has no public name{program}")


def let_alice_hold_the_port(users: Users, **variables: object) -> Program:
    alices = start_rping(users, ALICE, HERE, ALICES_RDMACM_PORT, **variables)
    assert port_holders(users) == {ALICE}
    return alices


@both_directions
@pytest.mark.parametrize(
    "command",
    ["ib_send_lat -s 4096", "ib_write_bw -s 100000 -n 200", "ib_read_bw -s 100000 -n 200", "ib_send_lat -e -n 200"],
)
def test_the_second_user_exchanges_messages_with_another_host(users: Users, command: str, listener: int) -> None:
    let_alice_hold_the_port(users, **HOST)
    finish(*start_pair(users, f"{command} {PERFTEST}", listener, **HOST))
    assert port_holders(users) == {ALICE}


@both_directions
def test_the_second_user_exchanges_datagrams_with_another_host(users: Users, listener: int) -> None:
    """No datagram is lost: each side sends the next one after it has received one."""
    let_alice_hold_the_port(users, **HOST)
    finish(*start_pair(users, "ibv_ud_pingpong -g 0 -s 512 -n 300", listener, **HOST))


@both_directions
def test_the_second_user_has_connections_with_another_host(users: Users, listener: int) -> None:
    let_alice_hold_the_port(users, **HOST)
    server = start_rping(users, USERS[listener], listener, RDMACM_PORT, **HOST)
    client = ["rping", "-c", *rping(ADDRESSES[listener], RDMACM_PORT)]
    users.on_nic(USERS[1 - listener], *client, side=1 - listener, **HOST).finish()
    server.finish()


def test_both_users_exchange_messages_with_another_host_at_once(users: Users) -> None:
    endless = ["ibv_rc_pingpong", "-g", "0", "-n", "1000000000"]
    far = start_server(users, ALICE, *endless, port=OTHER_PORT, side=FAR)
    alices = users.on_nic(ALICE, *endless, "-p", OTHER_PORT, ADDRESSES[FAR], side=HERE, **HOST)
    wait_until(lambda: port_holders(users) == {ALICE}, "Alice has the port", alices)
    finish(*start_pair(users, f"ib_send_lat -n 2000 {PERFTEST}", FAR, **HOST))
    for program in (alices, far):
        assert program.process.poll() is None, f"Alice's traffic has ended{program}"


def test_the_second_user_takes_the_port_when_the_first_ones_program_is_killed(users: Users) -> None:
    """Packets that are lost in between are sent again."""
    alices = let_alice_hold_the_port(users, **HOST)
    bobs, far = start_pair(users, f"ib_send_lat -D 4 {PERFTEST}", FAR, **HOST)
    wait_until(lambda: bobs.cpu_ns() > 200_000_000, "Bob exchanges messages", bobs)
    alices.process.send_signal(signal.SIGKILL)
    wait_until(lambda: port_holders(users) == {BOB}, "Bob has the port", bobs)
    finish(bobs, far)


def test_by_default_the_port_is_not_shared_and_the_variable_is_named(users: Users) -> None:
    let_alice_hold_the_port(users)
    client, _ = start_pair(users, f"ib_send_lat {PERFTEST}", FAR, **HOST)
    client.process.wait(30)
    assert client.process.returncode != 0, str(client)
    assert f"user id {ALICE} has UDP port 4791" in client.output, str(client)
    assert "VERBENA_PEERS=host" in client.output, str(client)


def test_a_user_without_the_port_passes_on_no_packets(users: Users, garbage: Path) -> None:
    """It could try all sequence numbers of another host's queue pair in seconds."""
    let_alice_hold_the_port(users, **HOST)
    bobs, far = start_pair(users, f"ib_send_lat -D 3 {PERFTEST}", FAR, VERBENA_LOG="warn", **HOST)
    wait_until(lambda: bobs.cpu_ns() > 50_000_000, "Bob exchanges messages", bobs)
    qpn = public_block(users, bobs) << 12 | 1
    users.on_nic(STRANGER, garbage, "vb_wire0", ADDRESSES[HERE], qpn, 500, "forwarded", side=HERE, **HOST).finish()
    finish(bobs, far)
    assert f"user id {STRANGER} passes on packets of other hosts" in bobs.output, str(bobs)
    assert port_holders(users) == {ALICE}


def test_the_user_with_the_port_is_not_accused_before_the_second_one_listens(users: Users, garbage: Path) -> None:
    """A peer may send first. Then the packets come before the process has seen who has the port."""
    let_alice_hold_the_port(users, **HOST)
    waits = ["ibv_rc_pingpong", "-d", "vb_wire0", "-g", "0"]
    bobs = start_server(users, BOB, *waits, port=OTHER_PORT, side=HERE, VERBENA_LOG="warn", **HOST)
    packets = [garbage, "vb_wire0", ADDRESSES[HERE], public_block(users, bobs) << 12 | 1, 500, "forwarded"]
    users.on_nic(ALICE, *packets, side=HERE, **HOST).finish()
    assert "passes on packets" not in bobs.output, str(bobs)
    users.on_nic(STRANGER, *packets, side=HERE, **HOST).finish()
    named = f"user id {STRANGER} passes on packets of other hosts"
    wait_until(lambda: named in bobs.output, "the other user is named", bobs)
