# SPDX-License-Identifier: Apache-2.0
"""Several servers with a share of the keys each: named by a list, or members of an etcd prefix."""

import base64
import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter

import pytest
from kv_members import facts_of, join, name_of, until_all_slots_have_owners
from programs import LIMIT_S, Program, Programs, stop, wait_until
from real_etcd import free_port
from test_kv import HOST, client, lines, serve

KEYS = 600
FEW = 18  # keys of a test in which operations wait until their deadlines


def sets(marker: str) -> list[str]:
    return [f"SET key{i} {marker}{i}" for i in range(KEYS)]


GETS = [f"GET key{i}" for i in range(KEYS)]


def keys_of(server: Program) -> int:
    told = server.end()
    assert told.status == 0, told
    found = re.search(r"(\d+) keys", told.out)
    assert found, told
    return int(found[1])


def ask(prefix: str, path: str, name: str) -> dict[str, object]:
    """Call etcd's JSON interface about the member of this name."""
    url, key = prefix.replace("etcd", "http").removesuffix("/kv"), base64.b64encode(f"/kv/{name}".encode()).decode()
    with urllib.request.urlopen(f"{url}/v3/kv/{path}", json.dumps({"key": key}).encode(), timeout=10) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def test_each_server_of_a_list_has_its_share(programs: Programs) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    ran = client(programs, where, *sets("v"), *GETS, "DEL key0", "GET key0")
    assert ran.status == 0, ran
    assert ran.out.splitlines() == [*(f"v{i}" for i in range(KEYS)), ""], ran
    # Another order of the names, and one of them twice, places the keys alike.
    other = ",".join([served[2][1], served[0][1], served[1][1], served[0][1]])
    assert client(programs, other, *GETS).out.splitlines() == ["", *(f"v{i}" for i in range(1, KEYS))]
    shares = [keys_of(server) for server, _ in served]
    assert sum(shares) == KEYS - 1 and min(shares) > KEYS / 6, shares


def test_a_list_opens_when_one_server_answers_and_only_the_keys_of_others_are_refused(programs: Programs) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    served[1][0].kill()
    ran = client(programs, where, *sets("v")[:FEW], *GETS[:FEW], options=("--timeout-ms", 400))
    refused = {int(number) for number in re.findall(r"commands\.txt:(\d+): the server could not", ran.err)}
    assert ran.status == 1 and served[1][1] in ran.err, ran
    assert {number for number in refused if number > FEW} == {number + FEW for number in refused if number <= FEW}, ran
    assert ran.out.splitlines() == [f"v{i}" for i in range(FEW) if i + 1 not in refused], ran


def test_a_client_fails_when_no_server_of_a_list_answers(programs: Programs) -> None:
    served = [serve(programs) for _ in range(2)]
    for server, _ in served:
        server.kill()
    ran = client(programs, ",".join(each for _, each in served), "GET key")
    assert ran.status == 1 and any(each in ran.err for _, each in served) and ran.seconds < 5, ran


def test_clients_of_a_prefix_find_its_members(programs: Programs, etcd: str) -> None:
    ran = client(programs, etcd, "GET key")
    assert ran.status == 1 and "no server is a member" in ran.err, ran
    servers = [join(programs, etcd) for _ in range(3)]
    ran = client(programs, etcd, *sets("v"), *GETS)
    assert ran.status == 0, ran
    assert ran.out.splitlines() == [f"v{i}" for i in range(KEYS)], ran
    shares = [keys_of(server) for server in servers]
    assert sum(shares) == KEYS and min(shares) > KEYS / 6, shares
    ran = client(programs, etcd, "GET key")
    assert ran.status == 1 and "no server is a member" in ran.err, "a server that ends deletes its entry"


def test_a_client_waits_for_the_first_member_of_a_prefix(programs: Programs, etcd: str) -> None:
    script = lines(programs, "commands.txt", "SET key value", "GET key")
    waiting = programs.start("kv_client", etcd, script, "--wait", 20)
    join(programs, etcd)
    ran = waiting.finish()
    assert ran.status == 0 and ran.out == "value\n", ran


def test_the_keys_of_a_crashed_member_move_after_its_lease(programs: Programs, etcd: str) -> None:
    servers = [join(programs, etcd) for _ in range(3)]
    servers[0].process.send_signal(signal.SIGKILL)

    def two_are_left() -> bool:
        ran = client(programs, etcd, *sets("w"), *GETS)
        return ran.status == 0 and ran.out.splitlines() == [f"w{i}" for i in range(KEYS)]

    wait_until(two_are_left, "the keys are shared by the two that are left")
    assert sum(keys_of(server) for server in servers[1:]) == KEYS


def test_only_the_keys_of_an_unreachable_member_are_refused(programs: Programs, etcd: str) -> None:
    """The name of one member cannot be resolved; another accepts connections and sends nothing."""
    until_all_slots_have_owners(programs, [join(programs, etcd)])
    with socket.create_server((HOST, 0)) as mute:
        names = ["no.such.host.invalid:7472", f"{HOST}:{mute.getsockname()[1]}"]
        for name in names:
            ask(etcd, "put", name)
        ran = client(programs, etcd, *sets("v")[:FEW], *GETS[:FEW], options=("--timeout-ms", 400))
    refused = {int(number) for number in re.findall(r"commands\.txt:(\d+): ", ran.err)}
    assert ran.status == 1 and ran.seconds < LIMIT_S, ran
    # A key whose SET failed is one whose GET failed, and all other keys were served.
    assert {number for number in refused if number > FEW} == {number + FEW for number in refused if number <= FEW}, ran
    assert ran.out.splitlines() == [f"v{i}" for i in range(FEW) if i + 1 not in refused]


def test_a_member_whose_entry_was_deleted_joins_again(programs: Programs, etcd: str) -> None:
    """This happens when another server of the same name leaves."""
    server = join(programs, etcd)
    name = name_of(server)
    assert ask(etcd, "deleterange", name)["deleted"] == "1"
    wait_until(lambda: ask(etcd, "range", name).get("count") == "1", "it has written its entry again", alive=server)
    ran = client(programs, etcd, "SET key value", "GET key")
    assert ran.status == 0 and ran.out == "value\n", ran


def test_no_set_fails_because_its_server_leaves_the_prefix_meanwhile(programs: Programs, etcd: str) -> None:
    """The server keeps running and answers; its entry in etcd is deleted, and it enters again."""
    members = [join(programs, etcd, "--join-lease-s", 1) for _ in range(2)]
    until_all_slots_have_owners(programs, members)
    name = name_of(members[0])
    commands = lines(programs, "many.txt", *(f"SET key{i} {i}" for i in range(150_000)))
    program = programs.start("kv_client", etcd, commands, "--proto", "rndv", "--rndv", "write", "--outstanding", 64)
    for _ in range(3):
        ask(etcd, "deleterange", name)
        wait_until(lambda: ask(etcd, "range", name).get("count") == "1", "it has entered again")
        until_all_slots_have_owners(programs, members)
    ran = program.finish()
    assert ran.status == 0, ran


def test_a_server_that_joins_while_a_client_works_gets_its_share_and_no_other_key_moves(
    programs: Programs, etcd: str
) -> None:
    until_all_slots_have_owners(programs, [join(programs, etcd) for _ in range(3)])
    working = programs.start("kv_client", etcd, stdin=subprocess.PIPE)

    def say(words: list[str]) -> None:
        assert working.process.stdin is not None
        working.process.stdin.write("".join(f"{line}\n" for line in words).encode())
        working.process.stdin.flush()

    def got() -> list[str]:
        """Read all keys by a new client, which knows the current members."""
        return client(programs, etcd, *GETS).out.splitlines()

    say([*sets("old"), "GET key0"])
    wait_until(lambda: got() == [f"old{i}" for i in range(KEYS)], "all keys are set", alive=working)
    fourth = join(programs, etcd)
    values = got()
    moved = [i for i, value in enumerate(values) if value == ""]
    assert KEYS / 12 < len(moved) < KEYS / 2, "about a quarter of the keys moves"
    assert all(value in ("", f"old{i}") for i, value in enumerate(values)), values

    def has_heard() -> bool:
        say([f"SET key{moved[0]} heard", "GET key0"])
        return client(programs, etcd, f"GET key{moved[0]}").out == "heard\n"

    wait_until(has_heard, "the working client knows the fourth member", alive=working)
    say(sets("new"))
    assert working.process.stdin is not None
    working.process.stdin.close()
    ran = working.finish()
    assert ran.status == 0, ran
    assert got() == [f"new{i}" for i in range(KEYS)]
    assert keys_of(fourth) == len(moved)


def test_a_cluster_says_that_it_is_a_cache(programs: Programs, etcd: str) -> None:
    member = join(programs, etcd)
    assert "the cluster is a cache" in member.out
    assert "The cluster is a cache" in re.sub(r"\s+", " ", programs.run("kv_server", "--help").out)
    facts = facts_of(programs, member)
    assert "cluster-cache" in facts["features"].split() and facts["cluster_is_a_cache"] == "yes"
    for words in (("--data", programs.folder / "data"), ("--one-sided", "64M")):
        ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", etcd, *words)
        assert ran.status == 2 and "is a cache" in ran.err, ran
    where = name_of(member)
    ran = client(programs, where, "GET key", "SET key value")
    assert ran.status == 1 and "etcd prefix" in ran.err, ran


def test_a_server_that_joins_needs_a_name_that_clients_can_reach(programs: Programs, etcd: str) -> None:
    for words in ((), ("--listen", "0.0.0.0"), ("--listen", "::")):
        ran = programs.run("kv_server", "--port", 0, *words, "--join", etcd)
        assert ran.status == 2 and "--name" in ran.err, ran


def test_a_server_ends_within_two_seconds_when_etcd_is_stalled(
    programs: Programs, etcd_program: tuple[Program, str]
) -> None:
    program, prefix = etcd_program
    server = join(programs, prefix)
    stop(program.pid)
    begin = time.monotonic()
    ran = server.end()
    took = time.monotonic() - begin
    assert ran.status == 0 and took < 2, (took, ran)  # a call to etcd times out after 5 s


def test_an_invalid_prefix_and_an_unreachable_etcd_are_reported(programs: Programs) -> None:
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", "zookeeper://x/y")
    assert ran.status == 2 and "etcd://HOST" in ran.err, ran
    where = f"etcd://{HOST}:{free_port()}/kv"
    for ran in (
        client(programs, where, "GET key"),
        programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", where),
    ):
        assert ran.status == 1 and "etcd at" in ran.err, ran


@pytest.mark.parametrize("way", [(), ("--proto", "rndv", "--rndv", "write"), ("--transport", "tcp")])
def test_every_protocol_and_transport_works_with_several_servers(programs: Programs, way: tuple[str, ...]) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    values = {f"key{i}": str(i) * (i * 500) for i in range(1, 40)}
    ran = client(
        programs,
        where,
        *(f"SET {key} {value}" for key, value in values.items()),
        *(f"GET {key}" for key in values),
        options=way,
    )
    assert ran.status == 0 and ran.out.splitlines() == list(values.values()), ran.err
    assert Counter(keys_of(server) > 0 for server, _ in served) == {True: 3}
