# SPDX-License-Identifier: Apache-2.0
"""One-sided operations between two processes of one host: what both see does not depend on the way.

The operations take the ring, or are executed directly in the target's memory: READs alone, or with
the NIC's heap all of them (docs/decisions/0036). direct.cc plays the scenarios. tests/statuses
compares the errors.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60

RING = {"VERBENA_DIRECT": "0"}
READS = {"VERBENA_DIRECT": "1", "VERBENA_HEAP": "0"}
ALL = {"VERBENA_DIRECT": "1", "VERBENA_HEAP": "1"}
WAYS = pytest.mark.parametrize("way", [RING, READS, ALL], ids=["ring", "reads", "all"])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    made = tmp_path_factory.mktemp("direct") / "direct"
    flags = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    sources = sorted(Path(__file__).parent.glob("*.cc"))
    subprocess.run(["g++", *flags, *sources, "-o", made, "-libverbs"], check=True)
    return made


def play(program: Path, way: dict[str, str], scenario: str, rounds: int = 1, status: int = 0) -> dict[str, str]:
    """Return the words that follow the first word of each line, by that word."""
    environment = os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "vb_lo"} | way
    done = subprocess.run(
        [program, scenario, str(rounds)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == status, f"{done.stdout}{done.stderr}"
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    words = {"note " + rest.split()[0] if word == "note" else word: rest.split()[-1] for word, rest in lines}
    if "VERBENA_LOG" in way:
        words["moved"] = str(done.stderr.count("the pages of its region are replaced"))
    return words


def test_every_length_and_place_leaves_the_same_memory(program: Path) -> None:
    seen = [play(program, way, "all_lengths") for way in (RING, READS, ALL)]
    assert seen[0]["read"] == "equal"
    assert seen[0] == seen[1] == seen[2]


def test_a_mixture_of_all_operations_leaves_the_same_memory(program: Path) -> None:
    seen = [play(program, way, "mixture", 40_000) for way in (RING, READS, ALL)]
    assert seen[0]["equal"] == "1"
    assert seen[0] == seen[1] == seen[2]


@WAYS
def test_reads_bring_the_targets_bytes(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "reads") == {"read": "equal"}


@WAYS
def test_a_send_follows_the_write_before_it_and_an_atomic_its_write(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "order", 500) == {"order": "0"}


@WAYS
def test_a_reader_that_sees_the_last_byte_sees_all(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "last_byte", 500) == {"torn": "0"}


@WAYS
def test_programs_that_wait_for_bytes_in_memory_answer_each_other(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "answers", 500) == {"torn": "0"}
    assert play(program, way, "unsignaled_answers", 200) == {"torn": "0"}


@WAYS
def test_remote_atomics_and_the_targets_own_lose_nothing(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "atomics", 20_000) == {"lost": "0"}


def test_queue_pairs_of_one_process_do_the_same(program: Path) -> None:
    seen = [play(program, way, "self") for way in (RING, READS, ALL)]
    assert seen[0]["status"] == "10"  # IBV_WC_REM_ACCESS_ERR
    assert seen[0] == seen[1] == seen[2]


@WAYS
def test_two_threads_may_post_to_one_queue_pair(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "threads", 20_000) == {"lost": "0"}


@WAYS
def test_a_long_write_ends_while_its_poster_sleeps(program: Path, way: dict[str, str]) -> None:
    assert play(program, way, "asleep") == {"bytes": "there"}


# Another thread's request that was executed at once left nothing to do, and so no thread woke the
# progress thread for the rest of the long one.
def test_a_long_write_ends_while_another_thread_posts_short_ones(program: Path) -> None:
    assert play(program, ALL, "asleep_beside", 4000) == {}


@pytest.mark.parametrize(("way", "direct"), [(RING, "no"), (READS, "no"), (ALL, "yes")], ids=["ring", "reads", "all"])
def test_a_stopped_target_takes_what_is_direct(program: Path, way: dict[str, str], direct: str) -> None:
    assert play(program, way, "stopped") == {"note direct": direct, "bytes": "there"}


@pytest.mark.parametrize("scenario", ["key_stopped", "queue_pair_stopped"])
@pytest.mark.parametrize("way", [RING, ALL], ids=["ring", "all"])
def test_no_byte_of_a_stopped_initiator_comes_after_the_right_was_taken(
    program: Path, way: dict[str, str], scenario: str
) -> None:
    seen = play(program, way | {"VERBENA_LOG": "debug"}, scenario, 30)
    assert (seen["late"], seen["lost"]) == ("0", "0")
    # Most of a direct WRITE's time is the copy, so some rounds stop the initiator in a copy.
    assert (seen["moved"] != "0") == (way is ALL), seen


@pytest.mark.parametrize("scenario", ["key_killed", "queue_pair_killed"])
def test_no_byte_of_a_killed_initiator_comes_later(program: Path, scenario: str) -> None:
    for _ in range(10):
        assert play(program, ALL, scenario)["late"] == "0"


@WAYS
def test_the_initiator_sees_that_its_target_was_killed(program: Path, way: dict[str, str]) -> None:
    seen = play(program, way, "killed", status=-9)
    assert seen == {"transport": "exceeded"}
