# SPDX-License-Identifier: Apache-2.0
"""Servers that hang, are killed and start again.

Each operation has a deadline and waits for its own server only; a change that is sent again is made
once.
"""

import contextlib
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest
from kv_histories import build_history, check, histories
from programs import ROOT, Program, Programs, stop, wait_until
from test_kv import HOST, build_c, client, serve
from test_kv_faults import CuttingProxy

TRIES = 5


@pytest.fixture(scope="module")
def history_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_history(tmp_path_factory)


@pytest.fixture(scope="module")
def hung_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_c(Programs(tmp_path_factory.mktemp("hung")), ROOT / "tests" / "kv" / "hung.c")


def serve_again(programs: Programs, where: str, *options: object) -> Program:
    """Start a server at the port of one that has ended."""
    port = where.rpartition(":")[2]
    server = programs.start("kv_server", "--listen", HOST, "--port", port, *options)
    wait_until(lambda: "listening" in server.out, "kv_server listens", alive=server)
    return server


def end(server: Program, number: signal.Signals) -> None:
    server.process.send_signal(number)
    server.process.wait()


def retries_of(clients: list[Program]) -> int:
    return sum(int(found[1]) for each in clients if (found := re.search(r"^retries (\d+)$", each.out, re.MULTILINE)))


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_a_stopped_server_fails_its_own_keys_in_time_and_delays_no_others(
    programs: Programs, hung_program: Path, transport: str
) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    stop(served[0][0].pid)
    hung = programs.start(hung_program, where, served[0][1], served[0][0].pid, transport)
    ran = hung.finish()
    os.kill(served[0][0].pid, signal.SIGCONT)
    assert ran.status == 0, ran


def begin(programs: Programs, history: Path, where: str, protocol: str, form: str) -> dict[int, Program]:
    """Start four clients that work until they are ended."""
    return {i: programs.start(history, where, i, 60, 3, protocol, form, 50, "retry") for i in range(1, 5)}


def work_on(clients: dict[int, Program], lines: int = 60) -> None:
    """Wait until each client has done more operations."""
    for each in clients.values():
        enough = each.out.count("\n") + lines
        wait_until(lambda each=each, enough=enough: each.out.count("\n") > enough, "it works", alive=each)


def end_all(clients: dict[int, Program]) -> int:
    """End the clients, and return how often they have sent a request again."""
    for each in clients.values():
        each.process.send_signal(signal.SIGTERM)
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
    return retries_of(list(clients.values()))


@pytest.mark.parametrize(("protocol", "form"), [("auto", "read"), ("rndv", "read"), ("rndv", "write"), ("tcp", "read")])
def test_no_call_fails_and_no_change_is_made_twice_while_a_durable_server_is_killed(
    programs: Programs, history_program: Path, protocol: str, form: str
) -> None:
    """All lives of the server together are one history: a SET that was made twice would show."""
    server, where = serve(programs, "--data", "store")
    clients = begin(programs, history_program, where, protocol, form)
    for _ in range(3):
        work_on(clients)
        end(server, signal.SIGKILL)
        server = serve_again(programs, where, "--data", "store")
    work_on(clients)
    assert end_all(clients) >= 1
    check(histories(clients), keys=3, at_least=200)


def test_no_call_fails_while_a_server_without_data_is_restarted_in_order(
    programs: Programs, history_program: Path
) -> None:
    """It says which requests it has not executed, so these are sent to its successor.

    On a busy machine an end may meet no request, so there are several tries.
    """
    server, where = serve(programs)
    for _ in range(TRIES):
        clients = begin(programs, history_program, where, "auto", "read")
        for _ in range(3):
            work_on(clients)
            assert server.end().status == 0
            server = serve_again(programs, where)
        work_on(clients)
        if end_all(clients) >= 1:
            return
    pytest.fail(f"no request met one of {3 * TRIES} ends of a server")


def test_changes_are_made_once_while_tcp_connections_are_cut(programs: Programs, history_program: Path) -> None:
    _, where = serve(programs)
    proxy = CuttingProxy(int(where.rpartition(":")[2]), seed=5)
    clients = {
        i: programs.start(history_program, proxy.where, i, 3, 3, "tcp", "read", 50, "retry") for i in range(1, 4)
    }
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
    proxy.close()
    assert proxy.cut >= 3
    check(histories(clients), keys=3, at_least=500)


class SwallowingProxy:
    """Forwards TCP. While `swallows` is set, it drops the bytes of the server and counts them."""

    def __init__(self, where: str) -> None:
        self._to = (HOST, int(where.rpartition(":")[2]))
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self.swallows = False
        self.swallowed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def where(self) -> str:
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours = self._listener.accept()[0]
                theirs = socket.create_connection(self._to)
                self._sockets += [ours, theirs]
                threading.Thread(target=self._pass_on, args=(ours, theirs, False), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(theirs, ours, True), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, of_server: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                if of_server and self.swallows:
                    self.swallowed += len(piece)
                else:
                    other.sendall(piece)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("change", "after"), [("SET key one", "of another"), ("DEL key", "of another")])
def test_a_change_whose_answer_is_lost_is_made_once(programs: Programs, change: str, after: str) -> None:
    """Another client sets the key between the lost answer and the repetition."""
    _, where = serve(programs)
    proxy = SwallowingProxy(where)
    working = programs.start("kv_client", proxy.where, "--transport", "tcp", stdin=-1)

    def say(*lines: str) -> None:
        assert working.process.stdin is not None
        working.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        working.process.stdin.flush()

    say("SET key zero", "GET key")
    wait_until(lambda: working.out == "zero\n", "it is connected", alive=working)
    proxy.swallows = True
    say(change, "GET key")
    wait_until(lambda: proxy.swallowed > 0, "the change is made and answered", alive=working)
    assert client(programs, where, f"SET key {after}").status == 0
    proxy.swallows = False
    proxy.cut()
    wait_until(lambda: working.out.count("\n") == 2, "the change is repeated", alive=working)
    assert working.process.stdin is not None
    working.process.stdin.close()
    ran = working.finish()
    proxy.close()
    assert ran.status == 0 and ran.out == f"zero\n{after}\n", ran


def test_an_unanswered_change_is_reported_when_its_server_has_lost_its_content(
    programs: Programs, history_program: Path
) -> None:
    """The server is stopped, so that a request is under way, and is then killed."""
    server, where = serve(programs)
    working = programs.start(history_program, where, 1, 30, 3, "auto", "read", 100, "retry")
    wait_until(lambda: working.out.count("\n") > 20, "it works", alive=working)
    stop(server.pid)
    end(server, signal.SIGKILL)
    serve_again(programs, where)
    ran = working.finish()
    assert ran.status == 1 and "history: -7: " in ran.err, ran


def test_two_names_of_one_server_are_two_clients_of_it(programs: Programs) -> None:
    _, where = serve(programs)
    port = where.rpartition(":")[2]
    sets = [f"SET key{i} v{i}" for i in range(40)]
    ran = client(programs, f"{HOST}:{port},localhost:{port}", *sets, *(f"GET key{i}" for i in range(40)))
    assert ran.status == 0 and ran.out.splitlines() == [f"v{i}" for i in range(40)], ran


def test_a_client_connects_again_when_its_server_is_back(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    assert client(programs, where, "SET key value").status == 0
    working = programs.start("kv_client", where, stdin=-1)
    assert working.process.stdin is not None
    for life in range(3):
        working.process.stdin.write(b"GET key\n")
        working.process.stdin.flush()
        wait_until(lambda life=life: working.out == "value\n" * (life + 1), "it has the value", alive=working)
        end(server, signal.SIGKILL)
        server = serve_again(programs, where, "--data", "store")
    working.process.stdin.close()
    assert working.finish().status == 0
