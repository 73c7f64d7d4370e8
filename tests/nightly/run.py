#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run the proof that takes hours, step by step: `make nightly` and `make weekly`.

Each step is a target of the Makefile with its parameters. A step that has passed on the same commit
is not run again, so a run that was interrupted goes on where it stopped. Each step appends a line
to log.tsv: the time, the commit, the step, its result and its seconds, separated by tabs. The
output of a step is beside it in <step>.log; its last lines are printed if it fails. The other steps
run anyway.

Exit status: 0 if every step has passed, 1 if one failed, 130 after an interrupt.
"""

import argparse
import datetime
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build-nightly"
HEADER = "time\tcommit\tstep\tresult\tseconds\n"


class Step(NamedTuple):
    name: str
    target: str
    limit: int  # seconds
    variables: tuple[str, ...] = ()  # as make takes them: NAME=value


NIGHTLY = [
    Step("asan", "asan", 2 * 3600),
    Step("tsan", "tsan", 3 * 3600),
    Step("lint", "lint", 2 * 3600),
    Step("fuzz-60", "fuzz", 3600, ("FUZZ_SECONDS=60",)),
    Step("sim-20000", "sim", 2 * 3600, ("SEEDS=1:20000",)),
    Step("litmus-1000", "litmus", 3600, ("ROUNDS=1000",)),
    Step("inject", "inject", 2 * 3600),
    Step("hostile", "hostile", 3600),
    Step("interop", "interop", 2 * 3600),
    Step("slow", "slow", 2 * 3600),
    Step("packages-test", "packages-test", 3600),
    Step("wheel-test", "wheel-test", 3600),
    Step("dist-test", "dist-test", 3600),
    Step("rpm-test", "rpm-test", 3600),
    Step("ci-test", "ci-test", 3600),
]
WEEKLY = [
    Step("fuzz-600", "fuzz", 3 * 3600, ("FUZZ_SECONDS=600",)),
    Step("sim-200000", "sim", 12 * 3600, ("SEEDS=1:200000",)),
    Step("mutants", "mutants", 4 * 3600),
]
SCHEDULES = {"nightly": NIGHTLY, "weekly": WEEKLY}


def commit_of(root: Path) -> str:
    """Return the short name of the commit; with `+` and a digest if files have been changed."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
        return done.stdout

    name = git("rev-parse", "--short=12", "HEAD").strip()
    changed = git("diff", "HEAD")
    if not changed:
        return name
    return f"{name}+{hashlib.sha1(changed.encode()).hexdigest()[:8]}"


def passed_steps(log: Path, commit: str) -> set[str]:
    """Return the steps that the log says have passed on this commit."""
    if not log.exists():
        return set()
    rows = [line.split("\t") for line in log.read_text().splitlines()[1:]]
    return {row[2] for row in rows if len(row) == 5 and row[1] == commit and row[3] == "passed"}


def append(log: Path, commit: str, step: str, result: str, seconds: float) -> None:
    """Append a line; it is on the disk when this returns."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        if file.tell() == 0:
            file.write(HEADER)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        file.write(f"{now}\t{commit}\t{step}\t{result}\t{seconds:.0f}\n")
        file.flush()
        os.fsync(file.fileno())


def run_step(step: Step, make: list[str], output: TextIO) -> str:
    """Run a step in a process group of its own and return its result in one or two words."""
    words = [*make, step.target, *step.variables]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        status = process.wait(step.limit)
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        # A step that is interrupted or has timed out takes its descendants with it.
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return "passed" if status == 0 else "failed"


def last_lines(path: Path, count: int) -> list[str]:
    return path.read_text(errors="replace").splitlines()[-count:]


def run_all(steps: list[Step], folder: Path, make: list[str], again: bool, as_json: bool) -> int:
    log, commit = folder / "log.tsv", commit_of(ROOT)
    done = set() if again else passed_steps(log, commit)
    rows = []
    for number, step in enumerate(steps, 1):
        place = f"[{number}/{len(steps)}] {step.name}"
        if step.name in done:
            print(f"{place}: passed before on {commit}", file=sys.stderr)
            rows.append({"step": step.name, "result": "passed", "seconds": None})
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{step.name}.log"
        print(f"{place}: running (at most {step.limit // 60} min); output in {path}", file=sys.stderr, flush=True)
        start = time.monotonic()
        with path.open("w") as output:
            result = run_step(step, make, output)
        seconds = time.monotonic() - start
        append(log, commit, step.name, result, seconds)
        print(f"{place}: {result} in {seconds:.0f} s", file=sys.stderr, flush=True)
        if result != "passed":
            print("".join(f"    {line}\n" for line in last_lines(path, 25)), end="", file=sys.stderr)
        rows.append({"step": step.name, "result": result, "seconds": round(seconds)})
    good = all(row["result"] == "passed" for row in rows)
    if as_json:
        print(json.dumps({"commit": commit, "passed": good, "steps": rows}, indent=1))
    else:
        failed = [row["step"] for row in rows if row["result"] != "passed"]
        print(
            f"{len(rows) - len(failed)} of {len(rows)} steps passed on {commit}"
            + "".join(f"; {s} failed" for s in failed)
        )
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  run.py nightly                 what make nightly runs\n"
        "  run.py nightly --only asan,fuzz-60\n  run.py weekly --again --json",
    )
    parser.add_argument("schedule", choices=sorted(SCHEDULES))
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build-nightly", help="of LOG and outputs (build-nightly)"
    )
    parser.add_argument("--only", metavar="STEPS", help="these steps alone, separated by commas")
    parser.add_argument("--again", action="store_true", help="also run steps that have passed on this commit")
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--make", default="make", help="the program that runs a target (make)")
    options = parser.parse_args()

    steps = SCHEDULES[options.schedule]
    if options.only is not None:
        wanted = options.only.split(",")
        unknown = sorted(set(wanted) - {step.name for step in steps})
        if unknown:
            parser.error(f"no step {', '.join(unknown)}; the steps are {', '.join(step.name for step in steps)}")
        steps = [step for step in steps if step.name in wanted]
    if options.list:
        for step in steps:
            print(" ".join([step.name, "make", step.target, *step.variables]))
        return 0
    try:
        return run_all(steps, options.folder.resolve(), [options.make], options.again, options.json)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with this step", file=sys.stderr)
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
