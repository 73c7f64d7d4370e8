#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make each system call of the NIC fail in turn, with each plausible errno, under a running pair.

Each trial is a pair of processes (pair.c). strace is attached to one of them when it has started,
and makes the K-th call of one kind fail, in each thread of the process. A good run, traced first,
says which calls the NIC makes (callers.py). A trial is bad if a process dies of a signal, is not
done in time, or waits in vain for data or an event although no call has failed. A call that fails
with an errno value is a clean error.

The K-th call of one thread may be the NIC's while that of another thread is librdmacm's, which does
not survive each failure. A wait in vain or a signal other than SIGABRT is not the NIC's fault if
such a call failed too in each attempt; the NIC's functions that no other trial has reached are
listed at the end.
"""

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from callers import Call, calls_of
from fault_errors import ERRORS, NOT_INJECTED
from pairs_of_processes import DONE, GOOD, KINDS, SIDES, Pair, compile_pair, verdict_of

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0
OCCURRENCES = 12  # the first ones of each call of the NIC
# Reading the stack of each call slows a side; on a loaded machine the time limit of connecting may
# pass.
GOOD_RUNS_MAX = 5
ATTEMPTS = 2  # made at one trial, if a call that is not the NIC's failed too
ACCEPTED = (*GOOD, "not reached", "not the NIC's")


@dataclass
class Trial:
    kind: str
    side: str
    call: str
    error: str
    occurrence: int


@dataclass
class Result:
    trial: Trial
    verdict: str  # that of verdict_of(), not reached, or not the NIC's
    callers: list[str]  # the functions of the NIC whose calls failed
    output: str


# The calls of the NIC that a good run of one side of a pair makes: each name with its occurrences.
Plan = dict[tuple[str, str], dict[str, list[int]]]


def tracer_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    return 0


def attach(pid: int, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start strace on the process, and wait until it is attached."""
    tracer = subprocess.Popen(["strace", "-qq", "-f", "-k", "-p", str(pid), *arguments], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + LIMIT_S
    while tracer_of(pid) != tracer.pid:
        if tracer.poll() == 0:
            break  # it was attached, and the fault has ended the program at once
        if tracer.poll() is not None or time.monotonic() > deadline:
            tracer.kill()
            tracer.wait()
            raise RuntimeError("strace did not attach: it needs the right to trace processes")
        time.sleep(0.002)  # a pause between two looks
    return tracer


class Tracing:
    """Runs pairs, with strace attached to one side."""

    def __init__(self, build: Path, program: Path) -> None:
        self.build = build
        self.program = program

    def run(self, kind: str, side: str, arguments: list[str]) -> tuple[list[int | None], str, list[Call]]:
        with tempfile.NamedTemporaryFile("r", errors="replace") as trace:
            pair = Pair(self.build, self.program, kind)
            tracer = None
            try:
                pair.wait_until_ready()
                process = pair.processes[SIDES.index(side)]
                tracer = attach(process.pid, [*arguments, "-o", trace.name])
                pair.go()
                statuses = pair.wait(time.monotonic() + LIMIT_S)
                output = pair.output()
            finally:
                pair.end()
                if tracer is not None:
                    try:
                        tracer.wait(5)
                    except subprocess.TimeoutExpired:
                        tracer.kill()
                        tracer.wait()
            return statuses, output, calls_of(trace)

    def calls_of_a_good_run(self, kind: str, side: str) -> dict[str, list[int]]:
        """The system calls of the NIC, and which occurrences in a thread are the NIC's."""
        arguments = ["-e", f"trace=!{','.join(sorted(NOT_INJECTED))}"]
        for _ in range(GOOD_RUNS_MAX):
            statuses, output, calls = self.run(kind, side, arguments)
            if statuses == [DONE, DONE]:
                break
        else:
            raise SystemExit(f"the {kind} pair fails without a fault: {statuses}\n{output}")
        found: dict[str, set[int]] = collections.defaultdict(set)
        for call in calls:
            if call.caller is not None:
                found[call.name].add(call.occurrence)
        unknown = sorted(set(found) - set(ERRORS))
        if unknown:
            raise SystemExit(f"ERRORS has no errno for {', '.join(unknown)} ({kind}, {side})")
        return {name: sorted(found[name]) for name in sorted(found)}

    def attempt(self, trial: Trial) -> tuple[Result, bool]:
        """The result, and whether a call failed that was not the NIC's."""
        error = trial.error.removesuffix("+")
        when = f"{trial.occurrence}{'+' if trial.error.endswith('+') else ''}"
        fault = f"inject={trial.call}:error={error}:when={when}"
        # With -Z only the calls that fail are printed.
        statuses, output, calls = self.run(trial.kind, trial.side, ["-Z", "-e", f"trace={trial.call}", "-e", fault])
        failed = [call for call in calls if call.injected]
        callers = sorted({call.caller for call in failed if call.caller is not None})
        result = Result(trial, verdict_of(statuses), callers, output)
        return result, len(failed) > sum(call.caller is not None for call in failed)

    def run_trial(self, trial: Trial) -> Result:
        for _ in range(ATTEMPTS):
            result, others = self.attempt(trial)
            if result.verdict in GOOD:
                if not result.callers:
                    result.verdict = "not reached"
                return result
            if not (others and result.verdict in ("hang", "lost event", "signal")):
                return result
        result.verdict = "not the NIC's"
        return result


def all_trials(plan: Plan, only: list[str], occurrences: int) -> list[Trial]:
    return [
        Trial(kind, side, name, error, occurrence)
        for (kind, side), calls in plan.items()
        for name in calls
        if not only or name in only
        for error in ERRORS[name].split()
        for occurrence in ([1] if error.endswith("+") else calls[name][:occurrences])
    ]


def sample(plan: Plan) -> list[Trial]:
    """One trial of each call, its first occurrence; spread over kinds, sides and errno values.

    The choice does not depend on how often a good run makes the call, which varies.
    """
    trials = []
    sides = list(plan)
    for number, (name, errors) in enumerate(ERRORS.items()):
        first = number % len(sides)
        for kind, side in sides[first:] + sides[:first]:
            if occurrences := plan[kind, side].get(name):
                values = errors.split()
                error = values[number % len(values)]
                trials.append(Trial(kind, side, name, error, 1 if error.endswith("+") else occurrences[0]))
                break
    return trials


def report(results: list[Result], planned: int) -> int:
    """Print the counts; return the number of bad trials."""
    counts = collections.Counter(result.verdict for result in results)
    for verdict, count in counts.most_common():
        print(f"{verdict:13} {count}")
    reached: dict[bool, set[tuple[str, str, str]]] = {False: set(), True: set()}
    for result in results:
        trial = result.trial
        judged = result.verdict != "not the NIC's"
        reached[judged].update((trial.call, trial.error, caller) for caller in result.callers)
    for call, error, caller in sorted(reached[False] - reached[True]):
        print(f"not judged: {call} with {error} in {caller}")
    bad = sum(counts[verdict] for verdict in counts if verdict not in ACCEPTED)
    print(f"{len(results)} of {planned} trials, {bad} bad; {len(reached[True])} pairs of an errno value and a caller")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=list(SIDES))
    parser.add_argument("--calls", nargs="*", default=[], help="only these system calls")
    parser.add_argument("--occurrences", type=int, default=OCCURRENCES)
    parser.add_argument("--quick", action="store_true", help="one trial of each system call")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="start no trial after this time")
    parser.add_argument("--first", type=int, default=0, help="start with this trial")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tracing = Tracing(options.build.resolve(), compile_pair(Path(folder)))
        plan = {
            (kind, side): tracing.calls_of_a_good_run(kind, side) for kind in options.kinds for side in options.sides
        }
        trials = sample(plan) if options.quick else all_trials(plan, options.calls, options.occurrences)
        trials = trials[options.first :]
        results: list[Result] = []
        for number, trial in enumerate(trials, 1):
            if time.monotonic() - start > options.limit_s:
                break
            result = tracing.run_trial(trial)
            results.append(result)
            if result.verdict not in ACCEPTED:
                print(f"\n{result.verdict}: {trial} {result.callers}\n{result.output}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(trials)}", end="", file=sys.stderr, flush=True)
    bad = report(results, len(trials))
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
