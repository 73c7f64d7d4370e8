# SPDX-License-Identifier: Apache-2.0
"""A cluster by `--join` is a cache: a key is missing after a move, and never has an older value.

Servers join, leave, are killed and are stopped. VERBENA_KV_ROUNDS has the number of rounds.
"""

import os
import random
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kv_histories import build_history, histories, violation
from kv_members import facts_of, join, until_all_slots_have_owners
from programs import ROOT, Program, Programs, stop, wait_until
from test_kv import build_c

KEYS = 300
ROUNDS = int(os.environ.get("VERBENA_KV_ROUNDS", "4"))
ROUND_LIMIT_S = 60.0
LEASE_S = 2


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_c(Programs(tmp_path_factory.mktemp("marks")), ROOT / "tests" / "kv" / "marks.c")


class Client:
    """A client that knows the members since its start."""

    def __init__(self, programs: Programs, marks: Path, prefix: str, timeout_ms: int = 15_000) -> None:
        self.program = programs.start(marks, prefix, KEYS, timeout_ms, stdin=subprocess.PIPE)
        self._answers = 0

    def _ask(self, line: str) -> list[str]:
        assert self.program.process.stdin is not None
        self.program.process.stdin.write(f"{line}\n".encode())
        self.program.process.stdin.flush()
        self._answers += 1
        wait_until(
            lambda: self.program.out.count("\n") == self._answers,
            f"the answer to {line}",
            alive=self.program,
            limit_s=ROUND_LIMIT_S,
        )
        return self.program.out.splitlines()[-1].split()[1:]

    def set_all(self, mark: int) -> None:
        """Set all keys, until each SET is acknowledged.

        SETs that a server got before it died or was stopped have no answer.
        """
        results: list[str] = []
        for _ in range(4):
            results = self._ask(f"set {mark}")
            if all(result == "0" for result in results):
                return
        pytest.fail(f"SETs that failed: {[(i, result) for i, result in enumerate(results) if result != '0']}")

    def get(self) -> list[int | None]:
        """Return the mark of each key; None: it is missing, or the GET failed."""
        return [None if mark in "-?" else int(mark) for mark in self._ask("get")]

    def end(self) -> None:
        assert self.program.process.stdin is not None
        self.program.process.stdin.close()
        assert self.program.finish().status == 0


@dataclass
class Cluster:
    programs: Programs
    prefix: str
    members: list[Program] = field(default_factory=list)
    stopped: list[Program] = field(default_factory=list)

    def add(self) -> None:
        self.members.append(join(self.programs, self.prefix, "--join-lease-s", LEASE_S))

    def change(self, kind: str) -> None:
        """Change the members; at least one stays."""
        if kind == "join" or len(self.members) < 2:
            return self.add()
        victim = self.members.pop(random.randrange(len(self.members)))
        if kind == "leave":
            assert victim.end().status == 0
        elif kind == "kill":
            victim.kill()
        else:
            stop(victim.pid)
            self.stopped.append(victim)
        return None

    def go_on(self) -> None:
        """Let the servers that were stopped go on, with what they had."""
        for each in self.stopped:
            os.kill(each.pid, signal.SIGCONT)
        self.members += self.stopped
        self.stopped = []


def check_marks(got: list[int | None], acknowledged: int) -> int:
    """Assert that no key has an older mark. Return how many keys have one."""
    older = [(i, mark) for i, mark in enumerate(got) if mark is not None and mark != acknowledged]
    assert not older, f"(key, mark) although {acknowledged} was acknowledged: {older}"
    return sum(mark is not None for mark in got)


def test_no_key_has_an_older_value_when_servers_join_leave_are_killed_or_stopped(
    programs: Programs, etcd: str, marks: Path
) -> None:
    cluster = Cluster(programs, etcd)
    for _ in range(2):
        cluster.add()
    knows_all = Client(programs, marks, etcd)
    mark = found = 0

    def check() -> int:
        """Let a client that knows the members for long, and one that does not, GET all keys."""
        knows_little = Client(programs, marks, etcd)
        had = check_marks(knows_all.get(), mark) + check_marks(knows_little.get(), mark)
        knows_little.end()
        return had

    for number in range(ROUNDS):
        kind = ("join", "stop", "leave", "kill")[number % 4]
        for change in (lambda kind=kind: cluster.change(kind), cluster.go_on):
            mark += 1
            knows_all.set_all(mark)
            found += check()
            # A key that gets an owner which had it before must not have its older value.
            change()
            check()
            until_all_slots_have_owners(programs, cluster.members)
            check()
    assert found >= KEYS * ROUNDS, "the servers answered"


def test_keys_miss_while_etcd_is_away_for_longer_than_the_lease_and_can_be_set_afterwards(
    programs: Programs, etcd_program: tuple[Program, str], marks: Path
) -> None:
    program, prefix = etcd_program
    member = join(programs, prefix, "--join-lease-s", LEASE_S)
    until_all_slots_have_owners(programs, [member])
    client = Client(programs, marks, prefix)
    client.set_all(1)
    assert client.get() == [1] * KEYS
    stop(program.pid)
    wait_until(lambda: client.get() == [None] * KEYS, "the right of the server ends")
    program.process.send_signal(signal.SIGCONT)
    client.set_all(2)
    assert client.get() == [2] * KEYS
    facts = facts_of(programs, member)
    assert int(facts["cluster_lapses"]) > 0 and facts["cluster_may_answer"] == "yes"


def test_histories_over_changes_of_the_members_are_linearizable_but_for_missing_keys(
    programs: Programs, etcd: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = build_history(tmp_path_factory)
    cluster = Cluster(programs, etcd)
    for _ in range(2):
        cluster.add()
    until_all_slots_have_owners(programs, cluster.members)
    clients = {10 + i: programs.start(program, etcd, 10 + i, 100, 4, "auto", "read", 50, "on") for i in (1, 2, 3)}
    for kind in ("join", "stop", "leave"):
        before = sum(client.out.count("\n") for client in clients.values())
        wait_until(
            lambda since=before: sum(client.out.count("\n") for client in clients.values()) > since + 300,
            "the clients work",
        )
        cluster.change(kind)
    cluster.go_on()
    ended = [client.end() for client in clients.values()]
    assert all(ran.status == 0 for ran in ended), ended
    found = histories(clients, servers_end=True)
    assert sum(len(each) for each in found.values()) > 500
    for key, history in found.items():
        judged = [each for each in history if each.is_write or each.value is not None]
        assert violation(judged) is None, (key, violation(judged))
