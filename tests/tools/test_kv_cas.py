# SPDX-License-Identifier: Apache-2.0
"""Compare-and-set: kv_client's words, and histories of several clients."""

import resource
import sys

import pytest
from programs import ROOT, Program, Programs, wait_until
from test_kv import build_c, client, serve
from test_kv_disk import limit_files, serve_limited
from test_kv_faults import CuttingProxy

sys.path.append(str(ROOT / "tests" / "kv"))
from conditional import Step, search, version_violation


def read(version: int, value: str | None, begin: int, end: int) -> Step:
    return Step("read", version, version, value, begin, end)


def change(before: int, after: int, value: str | None, begin: int, end: int) -> Step:
    return Step("change", before, after, value, begin, end)


def refused(before: int, found: int, begin: int, end: int) -> Step:
    return Step("refused", before, found, None, begin, end)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read(0, None, 0, 1), change(0, 5, "a", 2, 9), read(0, None, 3, 4), read(5, "a", 3, 4), refused(0, 5, 6, 7)],
        [change(0, 5, "a", 0, 1), change(5, 6, "b", 2, 9), change(6, 7, None, 2, 9), read(0, None, 3, 4)],
        [change(0, 5, "a", 0, 1), change(5, 6, None, 2, 3), change(0, 7, "b", 4, 5), read(7, "b", 6, 7)],
    ],
)
def test_both_checkers_accept_a_linearizable_history(history: list[Step]) -> None:
    assert version_violation(history) is None
    assert search(history)


@pytest.mark.parametrize(
    "history",
    [
        # Both replaced one version.
        [change(0, 5, "a", 0, 1), change(5, 6, "b", 2, 9), change(5, 7, "c", 2, 9)],
        [change(0, 5, "a", 0, 1), change(5, 6, "b", 2, 3), read(5, "a", 4, 5)],  # an older value
        [change(0, 5, "a", 4, 5), read(5, "a", 0, 1)],  # a value from the future
        [change(0, 5, "a", 0, 1), read(6, "b", 2, 3)],  # a value that was never set
    ],
)
def test_both_checkers_reject_a_history_that_is_not_linearizable(history: list[Step]) -> None:
    assert version_violation(history) is not None
    assert not search(history)


def histories(clients: dict[int, Program]) -> dict[str, list[Step]]:
    keys: dict[str, list[Step]] = {}
    for each in clients.values():
        for line in each.out.splitlines():
            kind, key, *words = line.split()
            value = None if kind == "F" or words[-3] == "-" else words[-3]
            numbers = [int(word) for word in words if word.isdecimal()]
            begin, end = numbers[-2:]
            before, after = (numbers[0], numbers[0]) if kind == "R" else numbers[:2]
            named = {"R": "read", "S": "change", "F": "refused"}[kind]
            keys.setdefault(key, []).append(Step(named, before, after, value, begin, end))
    return keys


def check(clients: dict[int, Program]) -> None:
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
    found = histories(clients)
    assert len(found) == 3
    for history in found.values():
        assert version_violation(history) is None
        assert search(history)
        kinds = [step.kind for step in history]
        assert kinds.count("change") > 10 and kinds.count("refused") > 0, (len(kinds), kinds.count("refused"))


WAYS = [("auto", "read"), ("rndv", "write"), ("eager", "read"), ("onesided", "read")]


@pytest.mark.parametrize(("protocol", "form"), WAYS)
@pytest.mark.parametrize("durable", [False, True])
def test_each_key_is_linearizable_under_compare_and_set(
    programs: Programs, protocol: str, form: str, durable: bool
) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "cas.c")
    _, where = serve(programs, "--one-sided", "16M", *(["--data", "store"] if durable else []))
    check({i: programs.start(program, where, i, 1, 3, protocol, form) for i in range(1, 5)})


@pytest.mark.parametrize("durable", [False, True])
def test_a_compare_and_set_that_was_sent_again_has_the_version_that_it_has_made(
    programs: Programs, durable: bool
) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "cas.c")
    _, where = serve(programs, *(["--data", "store"] if durable else []))
    proxy = CuttingProxy(int(where.rpartition(":")[2]), seed=7)
    check({i: programs.start(program, proxy.where, i, 3, 3, "tcp", "read") for i in range(1, 4)})
    proxy.close()
    assert proxy.cut >= 3


def test_a_failing_disk_breaks_no_chain_of_versions(programs: Programs) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "cas.c")
    server, where = serve_limited(programs)
    clients = {i: programs.start(program, where, i, 3, 3, "auto", "read") for i in range(1, 5)}
    for each in clients.values():
        wait_until(lambda each=each: each.out.count("\n") > 30, "it has begun", alive=each)
    for _ in range(3):
        limit_files(server, 8192)
        reads = len(clients[1].out)
        wait_until(lambda reads=reads: len(clients[1].out) > reads + 2000, "the disk fails", alive=server)
        limit_files(server, resource.RLIM_INFINITY)
        reads = len(clients[1].out)
        wait_until(lambda reads=reads: len(clients[1].out) > reads + 2000, "the disk works", alive=server)
    check(clients)


def version_of(text: str) -> int:
    return int(text.split(" ", 1)[0])


def test_versions_survive_the_server_and_grow_behind_it(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    first = version_of(client(programs, where, "SET key one", "GETV key").out)
    removed = client(programs, where, "SET gone x", "GETV gone", "DEL gone")
    assert removed.status == 0
    server.kill()
    server, where = serve(programs, "--data", "store")
    ran = client(programs, where, "GETV key", f"CAS key {first} two", "GETV key", "CAS gone 0 new")
    assert ran.status == 0, ran
    lines = ran.out.splitlines()
    assert lines[0] == f"{first} one" and lines[2] == f"{lines[1]} two"
    assert int(lines[1]) > version_of(removed.out), "versions go on behind a DEL that was the last change"
    assert int(lines[3]) > int(lines[1])


def test_a_store_without_its_content_uses_no_version_again(programs: Programs) -> None:
    server, where = serve(programs)
    first = version_of(client(programs, where, "SET key one", "GETV key").out)
    server.kill()
    _, where = serve(programs)
    ran = client(programs, where, "SET key one", f"CAS key {first} two", "GETV key")
    assert ran.status == 1 and "has another version; nothing has changed: its version is" in ran.err, ran
    assert version_of(ran.out) > first


def test_the_longest_key_and_value_can_be_set_by_an_eager_cas(programs: Programs) -> None:
    """Its message is the longest that there is."""
    _, where = serve(programs)
    key, value = "k" * 4096, "v" * (64 << 20)
    ran = client(programs, where, f"CAS {key} 0 {value}", f"GETV {key}", options=("--proto", "eager"))
    assert ran.status == 0, ran.err
    first, second = ran.out.splitlines()
    assert second == f"{first} {value}"


def test_the_words_of_kv_client_for_versions(programs: Programs) -> None:
    _, where = serve(programs)
    ran = client(programs, where, "GETV key", "CAS key 0 a value", "CAS key 0 another", "GET key")
    assert ran.status == 1, ran
    lines = ran.out.splitlines()
    assert lines[0] == "0 " and lines[2] == "a value"
    assert f"commands.txt:3: the key has another version; nothing has changed: its version is {lines[1]}" in ran.err
    ran = client(programs, where, "DEL key 1", f"DEL key {lines[1]}", "GETV key")
    assert ran.status == 1 and ran.out == "0 \n" and ran.err.count("commands.txt") == 1, ran
