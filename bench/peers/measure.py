# SPDX-License-Identifier: Apache-2.0
"""Measures cells in rounds, and keeps each run with the class of the cores at that time."""

import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from cells import Cell, Missing, NoResult
from programs import Machine
from table import MIXED, Run


class Progress:
    """Prints the current step on standard error: on a terminal always, else every ten seconds."""

    def __init__(self, total: int, limit_s: float) -> None:
        self.total, self.done, self.start, self.limit_s = total, 0, time.monotonic(), limit_s
        self.terminal = sys.stderr.isatty()
        self.printed = self.start

    def over(self) -> bool:
        """Return whether the time of the whole measurement is over."""
        return time.monotonic() - self.start >= self.limit_s

    def step(self, cell: Cell, program: str) -> None:
        now = time.monotonic()
        spent = now - self.start
        left = min(spent / self.done * max(self.total - self.done, 0), self.limit_s - spent) if self.done else None
        self.done += 1
        when = f"about {max(left, 0) / 60:.1f} min left" if left is not None else "the time left is not known yet"
        line = f"{self.done} of {max(self.total, self.done)}, {when}: {cell.title}, {program}"
        if self.terminal:
            print(f"\r\033[K{line[:150]}", end="", file=sys.stderr, flush=True)
        elif now - self.printed >= 10 or self.done == 1:
            self.printed = now
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr)


CLASS_CHANGED = "in each repetition the class of the cores changed or could not be measured"
NOT_REACHED = "the measurement ended before its first repetition did"


@dataclass
class Results:
    """All runs until now; complete also when the measurement is interrupted."""

    cells: list[Cell] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    # By the title of a cell and the program: what is missing, and each failed run.
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reasons(self) -> dict[tuple[str, str], str]:
        """Return for each program of a cell without any figure why it has none."""
        done = {(run.cell.title, run.program) for run in self.runs if run.near != MIXED}
        moved = {(run.cell.title, run.program) for run in self.runs} - done
        failed = {(title, program): reason for title, program, reason in self.failures}
        found = {}
        for at in ((cell.title, contestant.name) for cell in self.cells for contestant in cell.contestants):
            if at in done:
                continue
            found[at] = self.missing.get(at) or failed.get(at) or (CLASS_CHANGED if at in moved else NOT_REACHED)
        return found


def measure(machine: Machine, cells: list[Cell], repetitions: int, limit_s: float, results: Results) -> None:
    """Measure all cells in rounds and add the runs to the results.

    A disturbance of the machine thus affects every program. The round trip of a cache line is
    measured before and after the programs of a cell; if its class changed, the repetition is left
    out. A cell is done when one class has all its repetitions, or after twice as many. No run
    begins after `limit_s` seconds.
    """
    good = [Counter[str]() for _ in cells]  # repetitions by class, of each cell
    results.cells = cells
    progress = Progress(sum(len(cell.contestants) for cell in cells) * repetitions, limit_s)
    try:
        for _ in range(2 * repetitions):
            for cell, classes in zip(cells, good, strict=True):
                if max(classes.values(), default=0) >= repetitions:
                    continue
                if progress.over():
                    results.notes.append(f"stopped after {limit_s / 60:g} minutes, before all repetitions were done")
                    return
                classes[measure_cell(machine, cell, progress, results)] += 1
                del classes[MIXED]
    finally:
        progress.end()


def measure_cell(machine: Machine, cell: Cell, progress: Progress, results: Results) -> str:
    """Run each program of a cell once, and return the class of the cores meanwhile."""
    before, near_before = line(machine, results)
    taken: list[tuple[str, dict[str, float]]] = []
    for contestant in cell.contestants:
        if (cell.title, contestant.name) in results.missing:
            continue
        progress.step(cell, contestant.name)
        if progress.over():
            return MIXED
        try:
            sample = contestant.run()
        except Missing as reason:
            results.missing[cell.title, contestant.name] = str(reason)
            continue
        except NoResult as failure:
            results.failures.append((cell.title, contestant.name, str(failure)))
            continue
        if sample.doubt:
            results.failures.append((cell.title, contestant.name, sample.doubt))
        else:
            taken.append((contestant.name, sample.values))
    after, near_after = line(machine, results)
    near = near_before if near_before == near_after else MIXED
    for program, values in taken:
        for metric in cell.metrics:
            if metric.name in values:
                results.runs.append(Run(cell, metric, program, values[metric.name], near, before, after))
    return near


def line(machine: Machine, results: Results) -> tuple[float, str]:
    """Measure the round trip of a cache line; without a result in two tries the class is MIXED."""
    reason = ""
    for _ in range(2):
        try:
            return machine.line()
        except NoResult as failure:
            reason = str(failure)
    results.failures.append(("round trip of a cache line", "machine", reason))
    return 0.0, MIXED
