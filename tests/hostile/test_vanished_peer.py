# SPDX-License-Identifier: Apache-2.0
"""A host that vanishes is noticed within ten seconds, and a program that is stopped is not lost.

The cable between two network namespaces is pulled: no packet arrives any more, without notice.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# ruff: noqa: F401, F811
from library import BUILD, ROOT, Program, Programs, started
from programs import ADDRESSES, NamespacePair, NotPermitted, stop, wait_until

NOTICED_S = 10.0
STOPPED_S = 12.0  # longer than a vanished host is waited for
SERVER, CLIENT = 1, 0
PYTHON_CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from verbena_rpc import Client, RpcError
client = Client(sys.argv[2], int(sys.argv[3]), timeout=0)
assert client.call("rpc_test::add", 1, 2) == 3
print("connected", flush=True)
try:
    client.call("rpc_test::until_cancelled")
except RpcError as error:
    print("ended:", error, flush=True)
"""


@pytest.fixture
def hosts() -> Iterator[NamespacePair]:
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


def within(hosts: NamespacePair, side: int) -> Callable[[list[str]], list[str]]:
    return lambda command: [*hosts._enter(side), *command]


def echo_server(programs: Programs, hosts: NamespacePair, *options: object) -> tuple[Program, str]:
    server = programs.start(
        "echo_server", "--listen", ADDRESSES[SERVER], "--port", 0, *options, within=within(hosts, SERVER)
    )
    found = wait_until(lambda: re.search(r"listening at \S+?:(\d+)", server.out), "the server listens", alive=server)
    return server, f"{ADDRESSES[SERVER]}:{found[1]}"


def established(hosts: NamespacePair, side: int) -> int:
    listed = subprocess.run(
        [*hosts._enter(side), "ss", "-Htn", "state", "established"], capture_output=True, text=True, check=True
    )
    return len(listed.stdout.splitlines())


def clients(programs: Programs, hosts: NamespacePair, where: str, transport: str) -> dict[str, Program]:
    """Start a client that sends all the time, and one that is idle after its first echo."""
    common = ["performance_test", "-c", 2, "-s", where, "--transport", transport]
    return {
        "busy": programs.start(*common, "-t", 5, "--duration", 120, within=within(hosts, CLIENT)),
        "idle": programs.start(*common, "-n", 2, "-t", 110_000, within=within(hosts, CLIENT)),
    }


def clients_now(metrics: Path) -> int:
    """Return the number of the echo server's clients in its newest metrics."""
    return int(json.loads(metrics.read_text())["verbena_clients"]["samples"][0]["value"])


def connected(program: Program) -> bool:
    return "clients are connected" in program.out


def test_a_pulled_cable_is_noticed_by_both_ends_over_every_transport(
    started: Programs,
    hosts: NamespacePair,
) -> None:
    _, where = echo_server(started, hosts, "--metrics-json", "metrics.json")
    rpc = started.start(
        BUILD / "bench" / "rpc_test_server", "1", "tcp-any", within=within(hosts, SERVER), stdin=subprocess.PIPE
    )
    port = int(wait_until(lambda: rpc.out.strip(), "the RPC server listens", alive=rpc))
    both = {
        f"{kind} over {transport}": program
        for transport in ("tcp", "rdma")
        for kind, program in clients(started, hosts, where, transport).items()
    }
    python = started.start(
        sys.executable, "-c", PYTHON_CLIENT, ROOT / "python", ADDRESSES[SERVER], port, within=within(hosts, CLIENT)
    )
    for name, program in both.items():
        wait_until(lambda p=program: connected(p), f"{name} is connected", alive=program)
    wait_until(lambda: "connected" in python.out, "the Python client is connected", alive=python)
    wait_until(lambda: established(hosts, SERVER) == 5, "only the connections of TCP channels are left")
    metrics = started.folder / "metrics.json"
    wait_until(lambda: metrics.exists() and clients_now(metrics) == 8, "the metrics show two clients of each program")
    hosts.ip(SERVER, "link set wire1 down")
    pulled = time.monotonic()
    # A program that is idle learns of a lost channel when it uses it. Its sockets show it before.
    signs: dict[str, Callable[[], bool]] = {
        "busy over tcp": lambda: not both["busy over tcp"].running,
        "busy over rdma": lambda: not both["busy over rdma"].running,
        "the Python client": lambda: "ended:" in python.out,
        "TCP connections of the clients": lambda: established(hosts, CLIENT) == 0,
        "TCP connections of the servers": lambda: established(hosts, SERVER) == 0,
        "all clients of the echo server": lambda: clients_now(metrics) == 0,
    }
    noticed: dict[str, float] = {}
    # A client takes up to a second to close its channels, and the metrics are written each second.
    while len(noticed) < len(signs) and time.monotonic() - pulled < NOTICED_S + 2:
        for name, seen in signs.items():
            if name not in noticed and seen():
                noticed[name] = time.monotonic() - pulled
        time.sleep(0.1)  # the pause between two looks
    print("noticed after", {name: round(seconds, 1) for name, seconds in noticed.items()})
    assert noticed.keys() == signs.keys(), f"not noticed in time: {signs.keys() - noticed.keys()}"


def test_a_stopped_server_is_waited_for_on_one_host(started: Programs) -> None:
    server = started.start("echo_server", "--listen", "127.0.0.1", "--port", 0)
    found = wait_until(lambda: re.search(r"listening at \S+?:(\d+)", server.out), "the server listens", alive=server)
    options = ["-c", 2, "-t", 5, "-n", 300, "-s", f"127.0.0.1:{found[1]}"]
    both = [started.start("performance_test", *options, "--transport", each) for each in ("tcp", "rdma")]
    for client in both:
        wait_until(lambda c=client: connected(c), "the client is connected", alive=client)
    stop(server.pid)
    time.sleep(STOPPED_S)  # the time that is measured
    for client in both:
        assert client.running, client.finish()
    server.process.send_signal(18)  # SIGCONT
    for client in both:
        ran = client.finish()
        assert ran.status == 0, ran


def test_a_client_waits_for_a_stopped_server_until_its_own_deadline(started: Programs) -> None:
    server = started.start("echo_server", "--listen", "127.0.0.1", "--port", 0)
    found = wait_until(lambda: re.search(r"listening at \S+?:(\d+)", server.out), "the server listens", alive=server)
    options = ["-c", 1, "-t", 5, "--duration", 100, "--timeout-s", 2, "-s", f"127.0.0.1:{found[1]}"]
    both = [started.start("performance_test", *options, "--transport", each) for each in ("tcp", "rdma")]
    for client in both:
        wait_until(lambda c=client: connected(c), "the client is connected", alive=client)
    stop(server.pid)
    for client in both:
        ran = client.finish(limit_s=15)
        assert ran.status == 1, ran
        assert "the server sends no echo in time" in ran.err, ran
