# SPDX-License-Identifier: Apache-2.0
"""`verbena bench rcud` with --server on one host and --peer HOST on another.

The two are the same host by its loopback, or two network namespaces.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import ADDRESSES, NamespacePair, Programs, Ran, wait_until
from rcud_rows import check_account, only, read_csv

# Prints a free port of the network namespace in which it runs.
FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"
QUICK = ("--quiet", "--warmup", 200, "--reps", 2)
LISTENS, CONNECTED = "0A", "01"
Within = Callable[[list[str]], list[str]]


def has_socket(pid: int, port: int, state: str) -> bool:
    """Whether the network namespace of `pid` has a socket on this TCP port in this state."""
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(fields[3] == state and fields[1].endswith(f":{port:04X}") for fields in lines)


def measure(
    programs: Programs,
    host: str,
    sizes: str,
    *device: str,
    connect: str = "exchange",
    sides: tuple[Within, Within] = (list, list),
) -> tuple[Ran, Ran]:
    """Run server and client; return the client and the server when both have ended."""
    port = int(programs.run(sys.executable, "-c", FREE_PORT, within=sides[0]).out)
    server = programs.start("verbena", "bench", "rcud", "--server", "--once", "--port", port, *device, within=sides[0])
    wait_until(lambda: has_socket(server.pid, port, LISTENS), f"the server listens on {port}", alive=server)
    sweep = ("--sizes", sizes, "--windows", 4, "--iters", 2000, "--connect", connect, *QUICK)
    client = programs.run(
        "verbena", "bench", "rcud", "--peer", f"{host}:{port}", "--csv", "rows.csv", *sweep, *device, within=sides[1]
    )
    return client, server.finish(10)


def check_good(programs: Programs, client: Ran, server: Ran, *, host: str, mtu: int) -> None:
    assert client.status == server.status == 0, f"{client}{server}"
    assert "waiting for" in server.err, server
    rows, environment = read_csv(programs.folder / "rows.csv")
    assert environment["link"].endswith(f"to {host}:{environment['link'].rpartition(':')[2]}")
    assert environment["mtu"] == str(mtu) and environment["peer_kind"] == "software"
    assert environment["core_to_core_ns"] == "", "two hosts have no cache line between them"
    for mode in ("RC", "UD"):
        for window_mode in ("local", "credit"):
            check_account(only(rows, mode=mode, window_mode=window_mode, msg=64), 2 * 2000)
    for window_mode in ("local", "credit"):
        check_account(only(rows, mode="RC", window_mode=window_mode, msg=2 * mtu), 2 * 2000)
        above = only(rows, mode="UD", window_mode=window_mode, msg=2 * mtu)
        assert (above["validity"], above["reason"]) == ("n/a", f"msg {2 * mtu} > UD max {mtu}")


def test_server_and_peer_over_the_loopback(programs: Programs) -> None:
    both = measure(programs, "127.0.0.1", "64,8K", "--device", "vb_lo")
    check_good(programs, *both, host="127.0.0.1", mtu=4096)


def test_two_hosts_measure_each_other(programs: Programs, two_hosts: NamespacePair) -> None:
    sides = (lambda command: two_hosts.inside(0, command), lambda command: two_hosts.inside(1, command))
    sent = two_hosts.udp_datagrams_sent(1)
    both = measure(programs, ADDRESSES[0], "64,2K", sides=sides)
    check_good(programs, *both, host=ADDRESSES[0], mtu=1024)
    assert two_hosts.udp_datagrams_sent(1) > sent


def test_two_hosts_connect_by_rdma_cm(programs: Programs, two_hosts: NamespacePair) -> None:
    sides = (lambda command: two_hosts.inside(0, command), lambda command: two_hosts.inside(1, command))
    both = measure(programs, ADDRESSES[0], "64,2K", connect="rdmacm", sides=sides)
    check_good(programs, *both, host=ADDRESSES[0], mtu=1024)


def test_a_server_serves_new_clients_after_one_was_killed(programs: Programs) -> None:
    port = int(programs.run(sys.executable, "-c", FREE_PORT).out)
    server = programs.start("verbena", "bench", "rcud", "--server", "--port", port, "--device", "vb_lo")
    wait_until(lambda: has_socket(server.pid, port, LISTENS), f"the server listens on {port}", alive=server)
    command = (
        "verbena",
        "bench",
        "rcud",
        "--device",
        "vb_lo",
        "--peer",
        f"127.0.0.1:{port}",
        "--sizes",
        64,
        "--windows",
        4,
        *QUICK,
    )
    endless = programs.start(*command, "--iters", 1 << 30)
    wait_until(lambda: has_socket(server.pid, port, CONNECTED), "a client is served", alive=endless)
    endless.kill()
    for _ in range(2):
        ran = programs.run(*command, "--iters", 1000, "--csv", "-")
        assert ran.status == 0, ran
    assert server.running


@pytest.mark.parametrize(
    ("peer", "says"), [("no-such.invalid", "no-such.invalid"), ("127.0.0.1:1", "no server listens at 127.0.0.1:1")]
)
def test_an_unreachable_peer_is_a_failure(programs: Programs, peer: str, says: str) -> None:
    ran = programs.run("verbena", "bench", "rcud", "--peer", peer, *QUICK)
    assert ran.status == 1 and says in ran.err, ran
