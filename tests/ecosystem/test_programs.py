# SPDX-License-Identifier: Apache-2.0
"""The quick part of the table of other people's programs, and the page that is made from it.

`make ecosystem` runs the whole table.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from checks import Checker
from entry import CLIENT_KILLED, FAILS, MISSING, ONE_HOST, PLACES, PLAIN, ROOT, RUNS, Entry, Kill, Known, Result
from namespaces import NamespacePair, NotPermitted
from page import render, versions_in
from places import Place
from programs import ENTRIES, KNOWN, PROGRAMS
from wheels import Wheels

PAGE = ROOT / "docs" / "programs.md"
STEPS = [(entry, place) for entry in ENTRIES if entry.quick for place in PLACES if place in entry.places]


@pytest.fixture(scope="session")
def wire() -> Iterator[NamespacePair]:
    try:
        made = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield made
    made.close()


def run(wire: NamespacePair, entry: Entry, known: list[Known], check: str = PLAIN) -> Result:
    return Checker(Wheels(), known, grace_s=1).run(entry, Place(ONE_HOST, wire), check)


@pytest.mark.parametrize(("entry", "place"), STEPS, ids=[f"{entry.name}, {place}" for entry, place in STEPS])
def test_the_program_does_what_the_table_says(wire: NamespacePair, entry: Entry, place: str) -> None:
    result = Checker(Wheels(), KNOWN).run(entry, Place(place, wire), PLAIN)
    assert result.agrees, f"{result.verdict}\n{result.why}\n{result.detail}"


def test_the_page_of_programs_is_the_one_that_the_table_makes() -> None:
    page = PAGE.read_text()
    assert page == render(PROGRAMS, ENTRIES, KNOWN, versions_in(page, PROGRAMS)), "run `make ecosystem`"


def test_each_name_is_unique_and_each_program_has_an_entry() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.program for entry in ENTRIES} == set(PROGRAMS)


def test_each_known_failure_concerns_a_check() -> None:
    checks = [(entry.name, place, check) for entry in ENTRIES for place in entry.places for check in entry.checks()]
    idle = [known for known in KNOWN if not any(known.concerns(*check) for check in checks)]
    assert not idle


# The tests below show that the gate notices each kind of failure. Their programs need no NIC.


def entry_of(client: str, **fields: object) -> Entry:
    return Entry("a gate's test", "perftest", client, places=(ONE_HOST,), **fields)


def test_a_missing_program_is_not_as_expected(wire: NamespacePair) -> None:
    result = run(wire, entry_of("{run} no-such-program"), [])
    assert (result.verdict, result.agrees) == (MISSING, False)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sh -c 'exit 3'", "status 3"),
        ("echo wrong words", "did not print"),
        ("echo right words and an error", "printed 'error'"),
        ("sh -c 'echo right words; exec sleep 60'", "did not end within the limit"),
        ("sh -c 'echo right words; : > /dev/shm/ecosystem-left-behind'", "left behind"),
    ],
)
def test_the_gate_notices(wire: NamespacePair, command: str, said: str) -> None:
    left = Path("/dev/shm/ecosystem-left-behind")
    try:
        result = run(wire, entry_of(command, says=("right words",), limit_s=1), [])
    finally:
        left.unlink(missing_ok=True)
    assert (result.verdict, result.agrees) == (FAILS, False)
    assert said in result.detail


def test_a_known_failure_agrees_only_while_it_fails_in_the_known_way(wire: NamespacePair) -> None:
    failing, passing = entry_of("sh -c 'echo it broke; exit 3'"), entry_of("true")
    known, other = Known("a gate*", "why", "it broke"), Known("a gate*", "why", "another way")
    assert run(wire, failing, [known]).agrees
    assert not run(wire, failing, [other]).agrees
    assert not run(wire, passing, [known]).agrees


@pytest.mark.parametrize("rest", ["true", "exec sleep 60"])
def test_a_process_in_its_own_session_ends_with_the_check(wire: NamespacePair, tmp_path: Path, rest: str) -> None:
    log = tmp_path / "pid"
    detached = f'setsid --fork sh -c "echo \\$\\$ >{log}; exec sleep 60"'
    result = run(wire, entry_of(f"sh -c '{detached}; until test -s {log}; do :; done; {rest}'", limit_s=5), [])
    assert result.verdict == (RUNS if rest == "true" else FAILS), result.detail
    assert not Path(f"/proc/{int(log.read_text())}").exists()


UNTIL_THE_CLIENT_ENDS = "sh -c 'mkfifo {folder}/pipe; echo ready; exec cat {folder}/pipe'"
FOR_EVER = "sh -c 'echo ready; exec sleep 60'"


@pytest.mark.parametrize(
    ("server", "survivor", "verdict"),
    [
        (UNTIL_THE_CLIENT_ENDS, "ends", RUNS),
        (FOR_EVER, "ends", FAILS),
        (FOR_EVER, "goes on", RUNS),
        (UNTIL_THE_CLIENT_ENDS, "goes on", FAILS),
        (FOR_EVER, "either", RUNS),
        (UNTIL_THE_CLIENT_ENDS, "either", RUNS),
    ],
)
def test_the_survivor_of_a_kill_must_do_what_the_table_says(
    wire: NamespacePair, server: str, survivor: str, verdict: str
) -> None:
    # Zero rounds end at once, so that the run after the kill succeeds.
    client = "sh -c 'exec >{folder}/pipe; n={n}; while [ $n -gt 0 ]; do n=$((n - 1)); done'"
    entry = entry_of(
        client,
        server=server,
        ready="ready",
        rounds=(0, 1_000_000_000),
        server_ends=server == UNTIL_THE_CLIENT_ENDS,
        kill=((CLIENT_KILLED, Kill(survivor, within_s=1, cpu_s=0.1)),),
        limit_s=20,
    )
    assert run(wire, entry, [], CLIENT_KILLED).verdict == verdict
