# SPDX-License-Identifier: Apache-2.0
"""Members of a cluster in a real etcd, for tests of kv_server --join."""

import re
from collections.abc import Iterable

from programs import Program, Programs, wait_until
from test_kv import HOST, client

SLOTS = 1024
LEASE_S = 3  # longer than a pause of a busy machine


def name_of(member: Program) -> str:
    found = re.search(r"joined \S+ as (\S+)", member.out)
    assert found, member.out
    return found[1]


def join(programs: Programs, prefix: str, *options: object) -> Program:
    words = options if "--join-lease-s" in options else ("--join-lease-s", LEASE_S, *options)
    program = programs.start("kv_server", "--listen", HOST, "--port", 0, "--join", prefix, *words)
    wait_until(lambda: "joined" in program.out, "it has joined", alive=program)
    return program


def facts_of(programs: Programs, member: Program) -> dict[str, str]:
    """Return the lines of INFO of a member."""
    ran = client(programs, name_of(member), "INFO")
    assert ran.status == 0, ran
    return dict(line.split(": ", 1) for line in ran.out.splitlines())


def until_all_slots_have_owners(programs: Programs, members: Iterable[Program]) -> None:
    """Wait until these members answer for all keys."""
    wait_until(
        lambda: sum(int(facts_of(programs, each)["cluster_slots"]) for each in members) == SLOTS,
        "the members answer for all keys",
    )
