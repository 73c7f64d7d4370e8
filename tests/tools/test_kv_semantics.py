# SPDX-License-Identifier: Apache-2.0
"""The store's guarantees while clients work concurrently and are killed.

It is linearizable for each key, no value is torn, and memory does not grow.
"""

import re
import signal
import time
from pathlib import Path

import pytest
from kv_histories import INFINITE, Operation, build_history, check, histories, name_absences, violation
from programs import ROOT, Program, Programs, Ran, wait_until
from test_kv import build_c, serve


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
def test_the_checker_accepts_a_linearizable_history(history: list[Operation]) -> None:
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
def test_the_checker_rejects_a_history_that_is_not_linearizable(history: list[Operation]) -> None:
    assert violation(history) is not None


GONE, GONE_AGAIN = ("absent", 2), ("absent", 4)
ONE_WRITER = [write((1, 1), 0, 1), write(GONE, 2, 3), write((1, 3), 4, 5), write(GONE_AGAIN, 6, 7)]


@pytest.mark.parametrize(
    ("reads", "values"),
    [
        ([read(None, -2, -1)], [None]),
        ([read(None, 2.5, 2.6)], [GONE]),
        ([read(None, 3.5, 8)], [GONE]),
        ([read((1, 3), 4.5, 4.6), read(None, 5.5, 8)], [(1, 3), GONE_AGAIN]),
        ([read((1, 3), 4.2, 6.5), read(None, 4.5, 6.6), read((1, 3), 6.7, 6.8)], [(1, 3), GONE, (1, 3)]),
    ],
)
def test_a_read_of_a_missing_key_gets_the_first_absence_that_is_possible(
    reads: list[Operation], values: list[object]
) -> None:
    named = name_absences([*ONE_WRITER, *reads])
    assert [each.value for each in named if not each.is_write] == values
    assert violation(named) is None


@pytest.mark.parametrize(
    "reads",
    [
        [read(None, 1.5, 1.6)],
        [read(None, 5.1, 5.2)],
        [read((1, 1), 3.1, 3.2)],
        [read((1, 3), 4.1, 4.2), read(None, 4.3, 4.4)],
        [read(None, 6.1, 6.2), read((1, 3), 6.3, 6.4)],
        [read((1, 3), 7.1, 7.2)],
    ],
)
def test_a_read_that_contradicts_the_only_writer_is_rejected(reads: list[Operation]) -> None:
    assert violation(name_absences([*ONE_WRITER, *reads])) is not None


@pytest.fixture(scope="module")
def history_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_history(tmp_path_factory)


@pytest.mark.parametrize(
    ("protocol", "form"),
    [("eager", "read"), ("rndv", "read"), ("rndv", "write"), ("auto", "read"), ("onesided", "read")],
)
def test_each_key_is_linearizable_while_clients_are_killed(
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


def test_a_hundred_clients_with_sixteen_operations_under_way_each(programs: Programs) -> None:
    server, where = serve(programs)
    files = []
    for client in range(100):
        path = programs.folder / f"Client{client}.txt"
        sets = [f"SET key{client}.{i} {'v' * (i * 67 % 6000)}{client}.{i}" for i in range(64)]
        # Many GETs, so that no client is done before the others have begun.
        gets = [f"GET key{client}.{i}" for i in range(64)] * 3
        path.write_text("\n".join([*sets, *gets]) + "\n")
        files.append(path)
    ran = programs.run("kv_client", where, *files, "--outstanding", 16, "--stats")
    assert ran.status == 0, ran
    values = re.findall(r"Client(\d+)\.txt:(\d+): v*(\d+\.\d+)$", ran.out, re.MULTILINE)
    assert len(values) == 100 * 64 * 3
    assert all(value == f"{client}.{(int(line) - 65) % 64}" for client, line, value in values)
    assert ran.err.count("16 under way at most") == 100, ran.err
    told = server.end()
    peak = re.search(r"at most (\d+) clients were", told.out)
    assert peak and int(peak[1]) >= 64 and "6400 keys" in told.out, told


def resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def registered(told: Ran) -> int:
    found = re.search(r"(\d+) registrations", told.out)
    assert found, told
    return int(found[1])


def test_a_million_overwrites_leave_memory_and_registrations_as_they_were(programs: Programs) -> None:
    """The first hundred thousand SETs may register memory; the others must not."""
    program = build_c(programs, ROOT / "tests" / "kv" / "overwrite.c")
    few, where = serve(programs)
    ran = programs.run(program, where, 100_000, limit_s=60)
    assert ran.status == 0, ran
    of_few = registered(few.end())

    server, where = serve(programs)
    client = programs.start(program, where, 1_000_000)
    resident = []
    for tenths in (1, 8):
        wait_until(
            lambda tenths=tenths: client.out.count("\n") >= tenths,
            f"{tenths} tenths are done",
            alive=client,
            limit_s=120,
        )
        resident.append([resident_kib(each.pid) for each in (server, client)])
    ran = client.finish(limit_s=60)
    assert ran.status == 0, ran
    assert all(last < first * 1.05 + 1024 for first, last in zip(*resident, strict=True)), resident
    of_client = [int(line.split()[1]) for line in ran.out.splitlines()]
    assert of_client[-1] == of_client[0], of_client
    assert registered(server.end()) <= of_few + 2, of_few


def test_a_client_ends_with_status_1_when_its_server_is_killed(programs: Programs, history_program: Path) -> None:
    server, where = serve(programs)
    client = programs.start(history_program, where, 1, 30, 3, "auto", "read")
    wait_until(lambda: client.out.count("\n") > 100, "it has begun", alive=client)
    begun = time.monotonic()
    server.process.send_signal(signal.SIGKILL)
    ran = client.finish()
    assert ran.status == 1 and time.monotonic() - begun < 10, ran
