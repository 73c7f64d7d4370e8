# SPDX-License-Identifier: Apache-2.0
"""Compares the rows of this run with those of an earlier one: what changed, beyond noise.

A figure has changed if its 95 % intervals do not overlap. It is a regression if it is worse and the
whole interval of the ratio is beyond the tolerance. Rows that are not valid, or that were measured
at different core-to-core round trips, are not compared, and neither are figures without an
interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from report.compare import drift, ratio
from report.experiment import Experiment, Figure
from report.experiments import read_sources
from report.tables import Row, Source, TableError

REGRESSION, IMPROVEMENT, NO_CHANGE, NOT_COMPARED = "regression", "improvement", "no change", "not compared"
# Lines of the environment that say on which machine a table was measured.
MACHINE = ("kind", "device", "cpu", "cores", "kernel")


@dataclass(frozen=True)
class Change:
    experiment: str
    label: str  # the file of this run
    where: str  # the cell in words
    figure: str
    verdict: str
    bounds: tuple[float, float, float] | None  # new over old: least, middle, greatest
    old: tuple[float, float, float] | None
    new: tuple[float, float, float] | None
    reason: str = ""  # why the two are not compared

    def line(self) -> str:
        """Return the change in one line for a terminal."""
        name = f"{self.verdict}: {self.experiment} {self.where}, {self.figure}"
        if self.bounds is None:
            return f"{name}: {self.reason}"
        low, middle, high = (100 * (bound - 1) for bound in self.bounds)
        return f"{name}: {middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


@dataclass(frozen=True)
class Compared:
    """This run beside the baseline."""

    baseline: list[Source]
    changes: list[Change]  # the worst ones first
    machines: list[str]  # differences between the machines of both, a sentence each

    @property
    def summary(self) -> str:
        """The changes counted by their verdicts, in words."""
        counts = {each: sum(change.verdict == each for change in self.changes) for each in (REGRESSION, IMPROVEMENT)}
        same, left = (sum(change.verdict == each for change in self.changes) for each in (NO_CHANGE, NOT_COMPARED))
        parts = [f"{count} {verdict}{'' if count == 1 else 's'}" for verdict, count in counts.items()]
        return ", ".join([*parts, f"{same} without a change beyond noise", f"{left} not compared"])


def compare(read: dict[Experiment, list[Source]], baseline: list[Path], tolerance: float = 0.0) -> Compared:
    """Compare every row with that of the same cell in the baseline.

    `tolerance` is the share by which a figure may become worse.
    """
    old = read_sources(baseline)
    machines = [
        sentence for experiment, sources in read.items() for sentence in _machines(old.get(experiment, []), sources)
    ]
    return Compared(
        [source for sources in old.values() for source in sources],
        _changes(read, old, str(baseline[0]), tolerance),
        list(dict.fromkeys(machines)),
    )


def _machines(old: list[Source], new: list[Source]) -> list[str]:
    """Say in which lines of the environment two runs differ, if both have the line."""
    found = []
    for name in MACHINE:
        was, is_now = (
            sorted({source.environment.get(name, "") for source in sources} - {""}) for sources in (old, new)
        )
        if was and is_now and was != is_now:
            found.append(f"{name} was {' and '.join(was)}, and is {' and '.join(is_now)}")
    return found


def _changes(
    read: dict[Experiment, list[Source]], old: dict[Experiment, list[Source]], path: str, tolerance: float
) -> list[Change]:
    found: list[Change] = []
    for experiment, sources in read.items():
        known = _by_cell(experiment, old.get(experiment, []))
        for source in sources:
            for row in source.rows:
                found += _of_row(experiment, source, known.get(row.judged_cell), row, tolerance)
    if not any(change.bounds for change in found):
        reasons = sorted({change.reason for change in found if change.reason})
        why = f" ({reasons[0]})" if reasons else ""
        raise TableError(f"{path}: no row can be compared with this run{why}: measure the same cells, with repetitions")
    order = [REGRESSION, IMPROVEMENT, NO_CHANGE, NOT_COMPARED]
    return sorted(found, key=lambda change: (order.index(change.verdict), -_size(change)))


def _by_cell(experiment: Experiment, sources: list[Source]) -> dict[tuple[object, ...], Row]:
    known: dict[tuple[object, ...], Row] = {}
    for source in sources:
        for row in source.rows:
            if known.setdefault(row.judged_cell, row) is not row:
                raise TableError(
                    f"{source.label}: two rows of the baseline are {experiment.name} {experiment.name_of(row)}: name "
                    "one run only"
                )
    return known


def _size(change: Change) -> float:
    middle = change.bounds[1] if change.bounds else 1.0
    return max(middle, 1 / middle) if middle > 0 else float("inf")


def _of_row(experiment: Experiment, source: Source, old: Row | None, new: Row, tolerance: float) -> list[Change]:
    name, where = experiment.name, experiment.name_of(new)
    reason = _obstacle(old, new)
    if reason or old is None:
        return [Change(name, source.label, where, "row", NOT_COMPARED, None, None, None, reason)]
    found = []
    for figure in experiment.figures:
        if not (old.has_interval(figure.column) and new.has_interval(figure.column) and old.get(figure.column)):
            continue
        bounds = ratio(new, old, figure.column)
        verdict = _verdict(figure, bounds, tolerance)
        intervals = old.interval(figure.column), new.interval(figure.column)
        found.append(Change(name, source.label, where, figure.title, verdict, bounds, *intervals))
    return found


def _obstacle(old: Row | None, new: Row) -> str:
    if old is None:
        return "the baseline has no such row"
    for whose, row in (("the baseline's row", old), ("this row", new)):
        if not row.usable:
            return f"{whose} is {row.fault}"
    return drift(old, new)


def _verdict(figure: Figure, bounds: tuple[float, float, float], tolerance: float) -> str:
    low, _, high = bounds
    if low <= 1.0 <= high:
        return NO_CHANGE
    better = (low > 1.0) == figure.more_is_better
    if better:
        return IMPROVEMENT
    beyond = high < 1.0 - tolerance if figure.more_is_better else low > 1.0 + tolerance
    return REGRESSION if beyond else NO_CHANGE
