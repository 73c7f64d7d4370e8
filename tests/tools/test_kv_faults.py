# SPDX-License-Identifier: Apache-2.0
"""Histories while servers are killed and links fail: acknowledged changes stay and reads agree."""

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kv_histories import build_history, check, histories
from lossy_wire import ADDRESSES, lossy_wire
from programs import NamespacePair, NotPermitted, Program, Programs, stop, wait_until
from test_kv import HOST, client, serve

LOST = 1


@pytest.fixture(scope="module")
def history_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_history(tmp_path_factory)


def kill_once_all_are_busy(server: Program, clients: dict[int, Program], operations: int = 60) -> None:
    lines = 2 * operations  # a SET writes two
    for each in clients.values():
        wait_until(lambda each=each: each.out.count("\n") > lines, "it has begun", alive=each)
    server.process.send_signal(signal.SIGKILL)
    for each in clients.values():
        ran = each.finish()
        assert ran.status == LOST, ran


@pytest.mark.parametrize(
    ("protocol", "form"), [("auto", "read"), ("rndv", "read"), ("rndv", "write"), ("onesided", "read")]
)
def test_each_life_of_a_server_that_is_killed_is_linearizable(
    programs: Programs, history_program: Path, protocol: str, form: str
) -> None:
    """Without --data each life of the server starts empty, so each life is a history of its own."""
    for life in range(3):
        server, where = serve(programs, "--one-sided", "16M")
        clients = {
            i: programs.start(history_program, where, i, 30, 3, protocol, form)
            for i in range(life * 10 + 1, life * 10 + 5)
        }
        kill_once_all_are_busy(server, clients)
        check(histories(clients, servers_end=True), keys=3, at_least=200)


def test_acknowledged_changes_survive_the_servers_sigkill(programs: Programs, history_program: Path) -> None:
    """With --data all lives of the server together are one history."""
    clients: dict[int, Program] = {}
    for life in range(4):
        server, where = serve(programs, "--data", "store", "--one-sided", "16M")
        ours = {
            i: programs.start(history_program, where, i, 30, 3, "onesided", "read")
            for i in range(life * 10 + 1, life * 10 + 5)
        }
        kill_once_all_are_busy(server, ours)
        clients |= ours
    server, where = serve(programs, "--data", "store")
    last = programs.start(history_program, where, 99, 0.3, 3, "auto", "read", 0)
    assert last.finish().status == 0
    check(histories(clients | {99: last}, servers_end=True), keys=3, at_least=800)


def test_keys_and_values_of_every_size_are_durable_until_a_del(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    keys = {"k": "v", "x" * 510: "a", "x" * 511: "b", "y" * 4096: "c" * 100_000, "gone": "d", "large": "e" * 3_000_000}
    ran = client(programs, where, *(f"SET {key} {value}" for key, value in keys.items()), "DEL gone")
    assert ran.status == 0, ran
    server.kill()
    server, where = serve(programs, "--data", "store")
    ran = client(programs, where, *(f"GET {key}" for key in keys))
    assert ran.out.splitlines() == [value if key != "gone" else "" for key, value in keys.items()]
    told = server.end()
    assert told.status == 0 and "5 keys" in told.out, told


def test_a_data_folder_admits_one_server_and_must_fit_into_its_memory(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--data", "store")
    assert ran.status == 1 and "in use" in ran.err, ran
    assert client(programs, where, *(f"SET key{i} {'v' * 100_000}" for i in range(20))).status == 0
    assert server.end().status == 0
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--data", "store", "--memory", "1M")
    assert ran.status == 1 and "--memory" in ran.err, ran


def test_a_client_stalled_while_its_value_is_read_is_disconnected(programs: Programs, history_program: Path) -> None:
    """A client is stopped while the server reads its value: its connection and its memory end."""
    server, where = serve(programs, "--lease-ms", 200, "--memory", "8M")
    # A client that was stopped between two SETs proves nothing; then another one is stopped.
    for number in range(1, 40):
        still = programs.start(history_program, where, number, 60, 3, "rndv", "read", 100)
        wait_until(lambda each=still: each.out.count("\n") > 20, "it has begun", alive=still)
        stop(still.pid)
        patience = time.monotonic() + 1.5
        wait_until(
            lambda until=patience: "is stalled" in server.err or time.monotonic() > until,
            "the server disconnects it, or was not reading",
            alive=server,
        )
        if "is stalled" in server.err:
            break
        still.kill()
    assert "is stalled" in server.err
    still.kill()
    assert client(programs, where, f"SET key {'v' * 5_000_000}", "GET key").status == 0


@pytest.fixture
def wire_of_two_percent_loss() -> Iterator[NamespacePair]:
    with contextlib.ExitStack() as made:
        try:
            both = made.enter_context(lossy_wire(0.02))
        except NotPermitted as refusal:
            pytest.skip(f"no network namespaces here: {refusal}")
        yield both


@pytest.mark.parametrize(("protocol", "form"), [("auto", "read"), ("rndv", "write"), ("onesided", "read")])
def test_two_hosts_have_one_history_over_a_wire_that_loses_packets(
    wire_of_two_percent_loss: NamespacePair, programs: Programs, history_program: Path, protocol: str, form: str
) -> None:
    inside = [lambda command, side=side: wire_of_two_percent_loss.inside(side, command) for side in (0, 1)]
    server = programs.start(
        "kv_server", "--listen", ADDRESSES[0], "--port", 7472, "--one-sided", "16M", within=inside[0]
    )
    wait_until(lambda: "listening" in server.out, "kv_server listens", alive=server)
    where = f"{ADDRESSES[0]}:7472"
    clients = {
        i: programs.start(history_program, where, i, 3, 3, protocol, form, within=inside[i % 2]) for i in range(1, 5)
    }
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
    check(histories(clients), keys=3, at_least=200)


class CuttingProxy:
    """Forwards TCP in pieces of random size; cuts a connection after a random number of bytes."""

    def __init__(self, port: int, seed: int) -> None:
        self._to = port
        self._chance = random.Random(seed)
        self._listener = socket.create_server((HOST, 0))
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def where(self) -> str:
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours = self._listener.accept()[0]
                theirs = socket.create_connection((HOST, self._to))
                left = [self._chance.randrange(200_000, 3_000_000)]
                for a, b in ((ours, theirs), (theirs, ours)):
                    seed = self._chance.random()
                    threading.Thread(target=self._pass_on, args=(a, b, left, random.Random(seed)), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, left: list[int], chance: random.Random) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(chance.randrange(1, 60_000)):
                left[0] -= len(piece)
                if left[0] < 0:
                    self.cut += 1
                    piece = piece[: chance.randrange(len(piece) + 1)]
                other.sendall(piece)
                if left[0] < 0:
                    break
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def test_the_store_is_linearizable_while_tcp_connections_are_cut(programs: Programs, history_program: Path) -> None:
    _, where = serve(programs)
    proxy = CuttingProxy(int(where.rpartition(":")[2]), seed=3)
    clients: dict[int, Program] = {}
    running: list[Program] = []
    while proxy.cut < 12:
        running = [each for each in running if each.running]
        while len(running) < 3:
            number = len(clients) + 1
            clients[number] = programs.start(history_program, proxy.where, number, 20, 3, "tcp", "read")
            running.append(clients[number])
        wait_until(lambda running=running: not all(each.running for each in running), "a connection is cut")
    for each in running:
        each.kill()
    proxy.close()
    assert sum(each.process.returncode == LOST for each in clients.values()) >= 10
    check(histories(clients, servers_end=True), keys=3, at_least=500)


def test_clients_stalled_in_a_rendezvous_do_not_block_the_others(programs: Programs, history_program: Path) -> None:
    """Leases are short, so that those of the stalled clients expire while the others work."""
    server, where = serve(programs, "--lease-ms", 1000, "--memory", "64M")
    still = [programs.start(history_program, where, i, 60, 3, "rndv", form) for i, form in ((1, "read"), (2, "write"))]
    for each in still:
        wait_until(lambda each=each: each.out.count("\n") > 50, "it has begun", alive=each)
        stop(each.pid)
    clients = {i: programs.start(history_program, where, i, 2, 3, "auto", "read") for i in range(3, 6)}
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
        assert ran.out.count("\n") > 1000, ran
    for each in still:
        os.kill(each.pid, signal.SIGKILL)
        each.process.wait()
    check(histories(clients | dict(enumerate(still, start=1))), keys=3, at_least=1000)
    assert server.running
