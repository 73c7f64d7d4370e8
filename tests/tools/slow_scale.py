# SPDX-License-Identifier: Apache-2.0
"""The published command lines, unchanged, and the largest numbers of clients.

These tests take minutes. `make slow` runs them; `make test` does not.
"""

import json
import re

import pytest
from programs import BUILD, ROOT, Programs, Ran, wait_until

LIMIT_S = 300

PUBLISHED = (
    "./build/performance_test -c 10 -v",
    "./build/performance_test -c 100 -n 10",
    "./build/performance_test -c 1000 -n 5 -d 5",
    "./build/performance_test -c 5000 -n 2 -d 10 -t 50",
    "./build/performance_test -c 10000 -n 1 -d 20 -t 100",
    "./build/performance_test -c 20000 -n 1 -d 50 -t 200",
)


def run(programs: Programs, line: str) -> Ran:
    words = line.replace("./build/", f"{BUILD}/").split()
    return programs.run(*words, within=lambda command: ["env", f"--chdir={ROOT}", *command], limit_s=LIMIT_S)


def check_good(ran: Ran, clients: int) -> None:
    assert ran.status == 0, ran
    assert re.search(rf"^ +{clients} +100\.00%", ran.out, re.MULTILINE), ran


@pytest.mark.parametrize("line", PUBLISHED)
def test_a_published_command_line_succeeds_from_the_root(programs: Programs, line: str) -> None:
    ran = run(programs, line)
    clients = int(line.split()[2])
    check_good(ran, clients)
    assert f"server: {clients} clients at once" in ran.out, ran


def test_20000_clients_that_all_arrive_at_once_all_succeed(programs: Programs) -> None:
    """Each client has the usual 10 s for its handshake, counted from its own start."""
    clients = 20_000
    server = programs.start("echo_server", "--listen", "127.0.0.1", "--port", 0)
    where = wait_until(
        lambda: re.search(r"listening at (127\.0\.0\.1:\d+)", server.out), "echo_server listens", alive=server
    )
    words = ("performance_test", "-c", clients, "--handshakes", 0, "-d", 0, "-n", 1, "-s", where[1])
    check_good(programs.run(*words, limit_s=LIMIT_S), clients)
    ended = server.end()
    assert (
        ended.status == 0
        and f"at most {clients} clients were connected at a time" in ended.out
        and "0 handshakes failed" in ended.out
    ), ended


def test_a_hundred_thousand_logical_clients_share_64_queue_pairs(programs: Programs) -> None:
    words = ("--clients", 100_000, "--qps", 64, "--reps", 1, "--transport", "rdma", "--json", "-", "--quiet")
    ran = programs.run("verbena", "bench", "scale", *words, limit_s=LIMIT_S)
    assert ran.status == 0, ran
    (row,) = json.loads(ran.out)["rows"]
    assert row["success_percent"] == 100 and row["validity"] in ("valid", "suspect"), row
    assert row["qps"] == 64 and row["distinct_ids"] == row["peak_clients"] == 100_000, row
    assert row["server_echoes"] == row["client_echoes"] > 0, row


@pytest.mark.parametrize("engine", ["epoll", "uring"])
def test_a_server_has_the_same_threads_at_10_and_at_20000_clients(programs: Programs, engine: str) -> None:
    threads = set()
    for clients in (10, 20_000):
        ran = programs.run("performance_test", "-c", clients, "-n", 1, "--engine", engine, limit_s=LIMIT_S)
        check_good(ran, clients)
        row = re.search(rf"^ +{clients} +100\.00%.* (\d+)$", ran.out, re.MULTILINE)
        assert row, ran
        threads.add(row[1])
    assert len(threads) == 1, threads
