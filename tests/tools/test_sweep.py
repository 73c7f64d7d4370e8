# SPDX-License-Identifier: Apache-2.0
"""A sweep that is ended early keeps its rows, and goes on from them."""

import json
import os
import signal

from programs import Program, Programs, wait_until
from sweeps import expect_equally_often

BENCH = ("verbena", "bench", "rcud", "--quiet", "--sizes", "64,256", "--windows", 4, "--modes", "rc")
LONG = ("--iters", 200_000, "--warmup", 0, "--window-mode", "local")


def start(programs: Programs, repetitions: int) -> Program:
    """Start a sweep, and return when the table of its first repetitions is written."""
    running = programs.start(*BENCH, *LONG, "--reps", repetitions, "--json", "rows.json")
    path = programs.folder / "rows.json"
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=running, limit_s=30)
    return running


def table(programs: Programs) -> dict:
    return json.loads((programs.folder / "rows.json").read_text())


def measured(document: dict) -> int:
    return sum(len(row["repetitions"]) + len(row["apart"]) for row in document["rows"])


def check(programs: Programs) -> None:
    ran = programs.run("verbena", "check", "--strict", "rows.json")
    assert ran.status == 0, ran


def test_ctrl_c_keeps_the_rows_and_the_sweep_is_resumed(programs: Programs) -> None:
    ran = start(programs, 400).end(signal.SIGINT)
    assert ran.status == 130, ran
    document = table(programs)
    done = measured(document)
    assert document["environment"]["unfinished"] == f"{800 - done} repetitions were not measured"
    assert 0 < done < 800 and all(row["validity"] in ("valid", "suspect") for row in document["rows"])
    check(programs)
    # On a busy machine some are at another distance than the others, and so apart.
    wanted = max(len(row["repetitions"]) + len(row["apart"]) for row in document["rows"]) + 1
    ran = programs.run(*BENCH, *LONG, "--reps", wanted, "--json", "rows.json", "--resume", "rows.json", limit_s=60)
    assert ran.status == 0, ran
    whole = table(programs)
    expect_equally_often(whole["rows"], wanted)
    assert "unfinished" not in whole["environment"]
    first, last = document["rows"][0], whole["rows"][0]
    all_of_it = last["repetitions"] + last["apart"]
    assert all(each in all_of_it for each in first["repetitions"] + first["apart"]), "the earlier ones stay"
    check(programs)


def test_a_killed_sweep_keeps_the_rows_that_it_has(programs: Programs) -> None:
    running = start(programs, 400)
    os.kill(running.pid, signal.SIGKILL)
    running.finish()
    assert measured(table(programs)) > 0
    check(programs)


def test_other_settings_are_not_resumed(programs: Programs) -> None:
    quick = ("--iters", 500, "--reps", 1, "--json", "rows.json")
    assert programs.run(*BENCH, *quick).status == 0
    before = (programs.folder / "rows.json").read_text()
    ran = programs.run(*BENCH, *quick, "--resume", "rows.json", "--post-list", 4)
    assert ran.status == 1 and "cannot be resumed: its settings was" in ran.err, ran
    assert (programs.folder / "rows.json").read_text() == before
