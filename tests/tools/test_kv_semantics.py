"""What the store promises while clients work at once and die: linearizable for each key, no torn value, flat memory."""

import re
import signal
import time
from pathlib import Path

import pytest
from kv_histories import INFINITE, Operation, build_history, check, histories, violation
from programs import Program, Programs, wait_until
from test_kv import serve


def write(value: int, begin: float, end: float) -> Operation:
    return Operation(True, value, begin, end)


def read(value: int | None, begin: float, end: float) -> Operation:
    return Operation(False, value, begin, end)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read(None, 0, 1)],
        [write(1, 0, 10), read(1, 1, 2), read(1, 5, 6)],
        [write(1, 0, 10), read(None, 1, 2), read(1, 3, 4)],
        [write(1, 0, 10), write(2, 0, 10), read(2, 1, 2), read(1, 3, 4)],
        [write(1, 0, 1), write(2, 2, INFINITE), read(1, 3, 4)],
        [write(1, 0, 1), write(2, 2, INFINITE), read(1, 3, 4), read(2, 5, 6), read(2, 100, 101)],
    ],
)
def test_the_checker_accepts_what_can_be(history: list[Operation]) -> None:
    assert violation(history) is None


@pytest.mark.parametrize(
    "history",
    [
        [read(1, 0, 1)],
        [write(1, 5, 6), read(1, 0, 1)],
        [write(1, 0, 1), read(None, 2, 3)],
        [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
        [write(1, 0, 10), write(2, 0, 10), read(1, 1, 2), read(2, 3, 4), read(1, 5, 6)],
        [write(1, 0, 1), write(2, 2, INFINITE), read(2, 3, 4), read(1, 5, 6)],
        [write(1, 0, 1), read(1, 10, 11), write(2, 4, 5)],
    ],
)
def test_the_checker_rejects_what_cannot_be(history: list[Operation]) -> None:
    assert violation(history) is not None


@pytest.fixture(scope="module")
def history_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_history(tmp_path_factory)


@pytest.mark.parametrize(
    ("protocol", "form"), [("eager", "read"), ("rndv", "read"), ("rndv", "write"), ("auto", "read"), ("onesided", "read")]
)
def test_it_is_linearizable_for_each_key_while_clients_are_killed(
    programs: Programs, history_program: Path, protocol: str, form: str
) -> None:
    server, where = serve(programs, "--one-sided", "16M")
    clients: dict[int, Program] = {}

    def start(number: int, seconds: float) -> None:
        clients[number] = programs.start(history_program, where, number, seconds, 3, protocol, form)

    for number in range(1, 7):
        start(number, 3.0)
    for number in (1, 2, 3):
        victim = clients[number]
        wait_until(lambda victim=victim: victim.out.count("\n") > 50, "it has begun", alive=victim)
        victim.process.send_signal(signal.SIGKILL)
        start(number + 10, 1.5)
    for number, client in clients.items():
        ran = client.finish()
        assert ran.status == (-signal.SIGKILL if number <= 3 else 0), ran
    check(histories(clients), keys=3, at_least=500)
    assert server.running


def test_sixty_four_clients_with_sixteen_sets_each(programs: Programs) -> None:
    server, where = serve(programs)
    files = []
    for client in range(64):
        path = programs.folder / f"Client{client}.txt"
        sets = [f"SET key{client}.{i} {'v' * (i * 67 % 6000)}{client}.{i}" for i in range(64)]
        path.write_text("\n".join([*sets, *(f"GET key{client}.{i}" for i in range(64))]) + "\n")
        files.append(path)
    ran = programs.run("kv_client", where, *files, "--outstanding", 16, "--stats")
    assert ran.status == 0, ran
    values = re.findall(r"Client(\d+)\.txt:(\d+): v*(\d+\.\d+)$", ran.out, re.MULTILINE)
    assert len(values) == 64 * 64
    assert all(value == f"{client}.{int(line) - 65}" for client, line, value in values)
    assert ran.err.count("16 under way at most") == 64, ran.err
    told = server.end()
    assert "64 clients at most" in told.out and "4096 keys" in told.out, told


def resident_kib(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]


def test_overwriting_leaves_the_servers_memory_as_it_was(programs: Programs, history_program: Path) -> None:
    server, where = serve(programs)
    resident = []
    for number in range(4):
        ran = programs.run(history_program, where, number + 1, 1.5, 4, "auto", "read", 90)
        assert ran.status == 0, ran
        resident.append(resident_kib(server.pid))
    assert resident[3] < resident[0] * 1.05 + 1024, resident


def test_a_server_that_is_killed_is_noticed_and_said(programs: Programs, history_program: Path) -> None:
    server, where = serve(programs)
    client = programs.start(history_program, where, 1, 30, 3, "auto", "read")
    wait_until(lambda: client.out.count("\n") > 100, "it has begun", alive=client)
    begun = time.monotonic()
    server.process.send_signal(signal.SIGKILL)
    ran = client.finish()
    assert ran.status == 1 and time.monotonic() - begun < 10, ran
