# SPDX-License-Identifier: Apache-2.0
"""Events of kv_server, as kv_client, the C library and a program that mirrors keys get them.

The mirror knows of changes by events alone. Its keys must be those of the servers in the end, also
if servers were killed, members came and went, or it was stopped and lost events.
"""

import random
import re
import signal
import subprocess
from pathlib import Path

import pytest
from kv_members import join, name_of, until_all_slots_have_owners
from programs import ROOT, Program, Programs, stop, wait_until
from test_kv import HOST, build_c, client, lines, serve
from test_kv_semantics import resident_kib

KEYS = 200
MIRRORED = re.compile(r"equal after (\d+) events and (\d+) looks")


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_c(Programs(tmp_path_factory.mktemp("mirror")), ROOT / "tests" / "kv" / "mirror.c")


def start_mirror(programs: Programs, mirror: Path, where: str, transport: str = "rdma") -> Program:
    program = programs.start(mirror, where, KEYS, transport, stdin=subprocess.PIPE)
    wait_until(lambda: "mirroring" in program.out, "the mirror has looked", alive=program)
    return program


def compare(program: Program) -> tuple[int, int]:
    """Let the mirror compare itself with the servers; return its numbers of events and looks."""
    assert program.process.stdin is not None
    program.process.stdin.close()
    ran = program.finish()
    found = MIRRORED.search(ran.out)
    assert ran.status == 0 and found, ran
    return int(found[1]), int(found[2])


def changes(seed: int, count: int) -> list[str]:
    """Return lines that set, delete and end keys, and change keys that are not watched."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        key = f"m:{rng.randrange(KEYS)}"
        made.append(
            rng.choice([f"SET {key} {i}", f"SET {key} {i}", f"DEL {key}", f"SETEX {key} 20ms {i}", f"SET other{i} {i}"])
        )
    return made


def until_lines(program: Program, number: int) -> None:
    wait_until(lambda: program.out.count("\n") == number, f"{number} lines", alive=program)


def until_more_lines(program: Program, number: int) -> None:
    wait_until(lambda: program.out.count("\n") > number, f"more than {number} lines", alive=program)


def watch(programs: Programs, where: str, line: str) -> Program:
    watcher = programs.start("kv_client", where, lines(programs, "watch.txt", line))
    wait_until(lambda: watcher.out == "look-again\n", "the watch has begun", alive=watcher)
    return watcher


def test_kv_client_prints_events_until_it_is_ended(programs: Programs) -> None:
    _, where = serve(programs)
    key, prefix = watch(programs, where, "WATCH user:1"), watch(programs, where, "PWATCH user:")
    everything = watch(programs, where, "PWATCH")
    ran = client(programs, where, "SET user:1 a", "SETEX user:2 10ms b", "SET job c", "DEL user:1", "CAS user:1 0 d")
    assert ran.status == 0, ran
    for watcher, number in ((key, 4), (prefix, 6), (everything, 7)):
        until_lines(watcher, number)
    kinds = [re.sub(r"\d{4,}", "VERSION", line) for line in prefix.out.splitlines()]
    once = ["look-again", "set VERSION user:2", "deleted VERSION user:1", "expired VERSION user:2"]
    assert sorted(kinds) == sorted([*once, *["set VERSION user:1"] * 2])
    assert [line.split()[0] for line in key.out.splitlines()] == ["look-again", "set", "deleted", "set"]
    versions = [int(line.split()[1]) for line in key.out.splitlines()[1:]]
    assert versions == sorted(versions) and versions[2] == int(ran.out)
    assert set(prefix.out.splitlines()) < set(everything.out.splitlines())
    for watcher in (key, prefix, everything):
        # Not SIGINT: a program that a script has started in the background ignores that.
        assert watcher.end().status == -signal.SIGTERM


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_every_call_of_the_c_library(programs: Programs, transport: str) -> None:
    watch = build_c(programs, ROOT / "tests" / "kv" / "watch.c")
    _, where = serve(programs)
    ran = programs.run(watch, where, transport)
    assert (ran.status, ran.out) == (0, "all good\n"), ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_a_mirror_of_several_servers_has_every_change(programs: Programs, mirror: Path, transport: str) -> None:
    where = ",".join(serve(programs)[1] for _ in range(3))
    program = start_mirror(programs, mirror, where, transport)
    for seed in range(4):
        assert client(programs, where, *changes(seed, 1000)).status == 0
    events, looks = compare(program)
    assert events > 0 and looks <= 3, (events, looks)


def start_again(programs: Programs, port: str, data: Path) -> Program:
    server = programs.start("kv_server", "--listen", HOST, "--port", port, "--data", data)
    wait_until(lambda: "listening at" in server.out, "kv_server listens", alive=server)
    return server


def test_a_mirror_outlives_servers_that_are_killed(programs: Programs, mirror: Path, tmp_path: Path) -> None:
    server, where = serve(programs, "--data", tmp_path / "data")
    port = where.rsplit(":", 1)[1]
    program, others = start_mirror(programs, mirror, where), watch(programs, where, "PWATCH other")
    for seed in range(4):
        seen = others.out.count("\n")
        writer = programs.start("kv_client", where, lines(programs, "writes.txt", *changes(seed, 2000)))
        until_more_lines(others, seen)
        server.kill()
        server = start_again(programs, port, tmp_path / "data")
        assert writer.finish().status == 0
    _, looks = compare(program)
    assert looks > 1, "one more for each connection"


def test_a_mirror_of_a_cluster_outlives_members_that_come_and_go(programs: Programs, mirror: Path, etcd: str) -> None:
    members = [join(programs, etcd)]
    until_all_slots_have_owners(programs, members)
    program = start_mirror(programs, mirror, etcd)
    for seed, act in enumerate(("join", "join", "leave", "kill")):
        if act == "join":
            members.append(join(programs, etcd))
        elif act == "leave":
            assert members.pop(0).end().status == 0
        else:
            members.pop(0).kill()
        until_all_slots_have_owners(programs, members)
        assert client(programs, etcd, *changes(seed, 500)).status == 0
    compare(program)


def test_a_watcher_that_is_stopped_costs_the_server_bounded_memory(programs: Programs, mirror: Path) -> None:
    server, where = serve(programs, "--memory", "64M")
    program = start_mirror(programs, mirror, where)
    stop(program.pid)
    before = resident_kib(server.pid)
    writes = lines(programs, "writes.txt", *(f"SET m:{i % KEYS} {i}" for i in range(100_000)))
    for _ in range(3):
        assert programs.run("kv_client", where, writes, "--outstanding", 512).status == 0
    assert resident_kib(server.pid) < before + 16 * 1024, "the events of a stopped client"
    assert "\nwatches_lapsed: 1\n" in client(programs, where, "INFO").out
    program.process.send_signal(signal.SIGCONT)
    compare(program)


def test_an_evicted_key_has_an_event(programs: Programs) -> None:
    _, where = serve(programs, "--memory", "64M", "--evict")
    watcher = watch(programs, where, "PWATCH first")
    value = "v" * 100_000
    assert client(programs, where, f"SET first {value}", *(f"SET key{i} {value}" for i in range(1000))).status == 0
    until_lines(watcher, 3)
    words = [line.split() for line in watcher.out.splitlines()[1:]]
    assert [each[0] for each in words] == ["set", "evicted"] and words[0][1:] == words[1][1:], watcher.out


def test_a_server_that_is_full_refuses_a_watch_with_a_sentence(programs: Programs) -> None:
    _, where = serve(programs, "--memory", "64M")
    assert client(programs, where, *(f"SET {i} {'v' * 60_000}" for i in range(1300))).status == 1
    assert client(programs, where, *(f"SET small{i} {'v' * 500}" for i in range(200))).status == 1
    ran = client(programs, where, "WATCH config")
    assert ran.status == 1
    assert "the store is full" in ran.err
    assert client(programs, where, "DEL 0").status == 0
    watcher = watch(programs, where, "WATCH config")
    assert client(programs, where, "SET config 1").status == 0
    until_lines(watcher, 2)


def test_a_key_that_moves_to_another_member_has_an_event(programs: Programs, etcd: str) -> None:
    first = join(programs, etcd)
    until_all_slots_have_owners(programs, [first])
    assert client(programs, etcd, *(f"SET key{i} v" for i in range(100))).status == 0
    watcher = watch(programs, etcd, "PWATCH key")
    second = join(programs, etcd)
    until_all_slots_have_owners(programs, [first, second])
    moved = [f"key{i}" for i in range(100) if client_misses(programs, etcd, f"key{i}")]
    assert moved, name_of(second)
    wait_until(
        lambda: set(re.findall(r"^evicted \d+ (\S+)$", watcher.out, re.MULTILINE)) == set(moved),
        "the keys that have moved are evicted",
        alive=watcher,
    )


def test_the_watch_of_one_key_follows_it_to_another_member(programs: Programs, etcd: str) -> None:
    first = join(programs, etcd)
    until_all_slots_have_owners(programs, [first])
    keys = [f"key{i}" for i in range(20)]
    assert client(programs, etcd, *(f"SET {key} v" for key in keys)).status == 0
    # Each file is a client with a watch of its own.
    watcher = programs.start("kv_client", etcd, *(lines(programs, f"{key}.txt", f"WATCH {key}") for key in keys))
    wait_until(lambda: watcher.out.count("look-again") == len(keys), "all watches have begun", alive=watcher)
    second = join(programs, etcd)
    until_all_slots_have_owners(programs, [first, second])
    moved = [key for key in keys if client_misses(programs, etcd, key)]
    assert moved, name_of(second)

    def each_has_an_event() -> bool:
        # A SET before the watch is at the new member has no event, but a look-again after it.
        assert client(programs, etcd, *(f"SET {key} w" for key in keys)).status == 0
        return set(re.findall(r": set \d+ (\S+)$", watcher.out, re.MULTILINE)) == set(keys)

    wait_until(each_has_an_event, "each key has an event from its new member", alive=watcher)


def client_misses(programs: Programs, where: str, key: str) -> bool:
    return client(programs, where, f"GET {key}").out == "\n"
