# SPDX-License-Identifier: Apache-2.0
"""The runner of the long proof: what it runs, records, leaves out, and ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import run

RUNNER = Path(run.__file__)

# Stands in for make: it notes the target, and fails, or waits, for the target that a file names.
MAKE = """#!/bin/bash
echo "$1" >>"$0.ran"
[ "$(cat "$0.fails" 2>/dev/null)" != "$1" ] || { echo "a line about the failure"; exit 2; }
[ "$(cat "$0.waits" 2>/dev/null)" != "$1" ] || { echo waiting >"$0.waiting"; exec timeout 120 tail -f /dev/null; }
"""


class Runner:
    def __init__(self, folder: Path):
        self.folder, self.make = folder / "out", folder / "make"
        self.make.write_text(MAKE)
        self.make.chmod(0o755)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-B", str(RUNNER), *words, "--folder", str(self.folder), "--make", str(self.make)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)

    def beside(self, suffix: str) -> Path:
        return Path(f"{self.make}.{suffix}")

    def ran(self) -> list[str]:
        return self.beside("ran").read_text().split()

    def log(self) -> list[list[str]]:
        return [line.split("\t") for line in (self.folder / "log.tsv").read_text().splitlines()]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_every_step_is_a_target_of_the_makefile():
    targets = {line.split(":")[0] for line in (run.ROOT / "Makefile").read_text().splitlines() if ": " in line}
    for step in run.NIGHTLY + run.WEEKLY:
        assert step.target in targets, step


def test_every_step_runs_and_is_logged_although_one_fails(runner: Runner):
    runner.beside("fails").write_text("lint")
    done = runner.run("nightly", "--json")
    assert done.returncode == 1, done.stderr
    assert runner.ran() == [step.target for step in run.NIGHTLY]
    assert "a line about the failure" in done.stderr
    report = json.loads(done.stdout)
    assert [row["step"] for row in report["steps"] if row["result"] == "failed"] == ["lint"]
    header, *rows = runner.log()
    assert header == ["time", "commit", "step", "result", "seconds"]
    assert [row[3] for row in rows] == ["failed" if step.name == "lint" else "passed" for step in run.NIGHTLY]


def test_a_second_run_repeats_only_what_has_not_passed(runner: Runner):
    runner.beside("fails").write_text("sim")
    assert runner.run("weekly").returncode == 1
    runner.beside("fails").unlink()
    done = runner.run("weekly")
    assert done.returncode == 0, done.stderr
    assert runner.ran() == ["fuzz", "sim", "mutants", "sim"]
    assert runner.run("weekly", "--again").returncode == 0
    assert runner.ran() == ["fuzz", "sim", "mutants", "sim", "fuzz", "sim", "mutants"]


def test_an_interrupt_ends_the_step_and_is_not_a_pass(runner: Runner):
    runner.beside("waits").write_text("sim")
    process = subprocess.Popen(runner.command("weekly"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.set_blocking(process.stderr.fileno(), True)
    for line in process.stderr:
        if "sim-200000: running" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    assert "goes on with this step" in process.stderr.read()
    assert [row[2] for row in runner.log()[1:]] == ["fuzz-600"]


def test_an_unknown_step_is_refused_with_the_list(runner: Runner):
    done = runner.run("nightly", "--only", "asan,fuz")
    assert done.returncode == 2
    assert "no step fuz; the steps are asan, tsan" in done.stderr
