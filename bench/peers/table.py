# SPDX-License-Identifier: Apache-2.0
"""Makes rows of runs: medians with their spread, and ratios within a row.

There is a table for each class of the core-to-core round trip: runs made while the two cores were
near and runs made while they were far are never in one row.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from textwrap import shorten

from cells import OURS, Cell, Metric

CLASSES = ("smt", "near", "far")
MIXED = "mixed"  # the class changed during the repetition


@dataclass(frozen=True)
class Run:
    """One figure of one run of one program."""

    cell: Cell
    metric: Metric
    program: str
    value: float
    near: str  # class of the round trip: smt, near, far, or MIXED
    rtt_before_ns: float
    rtt_after_ns: float


@dataclass(frozen=True)
class Figure:
    """The median of several runs, with the smallest and the largest of them."""

    median: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        if self.runs == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


@dataclass(frozen=True)
class Row:
    """The figures of all programs for one metric of a cell, measured in one class."""

    cell: Cell
    metric: Metric
    near: str
    rtt_ns: float
    figures: dict[str, Figure]  # by program, ours first

    @property
    def title(self) -> str:
        return self.cell.title + self.metric.suffix

    def ratio(self, program: str) -> float | None:
        """Return by which factor ours is better: ours / theirs for rates, else theirs / ours."""
        ours, theirs = self.figures.get(OURS), self.figures.get(program)
        if program == OURS or ours is None or theirs is None or ours.median == 0 or theirs.median == 0:
            return None
        ratio = ours.median / theirs.median
        return 1 / ratio if self.metric.smaller_is_better else ratio


def rows_of(cells: Iterable[Cell], runs: Iterable[Run]) -> list[Row]:
    """Group runs to rows, in the order of the cells; runs of the class MIXED are left out."""
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.cell.title, run.metric.name, run.near].append(run)
    rows = []
    for cell in cells:
        for metric in cell.metrics:
            for near in CLASSES:
                members = groups.get((cell.title, metric.name, near))
                if not members:
                    continue
                figures = {}
                for contestant in cell.contestants:
                    values = [run.value for run in members if run.program == contestant.name]
                    if values:
                        figures[contestant.name] = Figure(median(values), min(values), max(values), len(values))
                trip = median((run.rtt_before_ns + run.rtt_after_ns) / 2 for run in members)
                rows.append(Row(cell, metric, near, trip, figures))
    return rows


def number(value: float) -> str:
    """Format a number with three significant digits, or more above 1000."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


# Title of a cell and program: why the program has no figure.
Reasons = dict[tuple[str, str], str]

HEADINGS = ["measured", "unit", "line ns", "runs", "verbena", "beside", "median (range)", "ours is better by"]


def lines_of(row: Row, reasons: Reasons) -> list[list[str]]:
    """Return a line of the table for each program beside ours.

    A program with a reason has n/a in the first row of its cell.
    """
    first = row.metric == row.cell.metrics[0]
    absent = {c.name for c in row.cell.contestants if first and (row.cell.title, c.name) in reasons}
    ours = row.figures.get(OURS)
    others = [c.name for c in row.cell.contestants if c.name != OURS]
    shown = [name for name in others if name in row.figures or name in absent] or [""]
    lines = []
    for index, name in enumerate(shown):
        theirs, ratio = row.figures.get(name), row.ratio(name)
        runs = min(figure.runs for figure in (ours, theirs) if figure is not None) if ours or theirs else 0
        start = [row.title, row.metric.unit, f"{row.rtt_ns:.0f}"] if index == 0 else ["", "", ""]
        mine = str(ours or ("n/a" if OURS in absent else "-")) if index == 0 else ""
        beside = str(theirs or ("n/a" if name else "-"))
        lines.append([*start, str(runs), mine, name or "-", beside, f"{number(ratio)}x" if ratio else "-"])
    return lines


def markdown(rows: list[Row], reasons: Reasons) -> str:
    """Return a table for each class, and one of the programs that have no figure."""
    out: list[str] = []
    for near in CLASSES:
        lines = [line for row in rows if row.near == near for line in lines_of(row, reasons)]
        if lines:
            out += [f"### Cores: {near}", "", *aligned([HEADINGS, *lines], left=(0, 5)), ""]
    if reasons:
        lines = [[title, program, f"n/a: {brief(reason)}"] for (title, program), reason in reasons.items()]
        out += ["### Not measured", "", *aligned([["row", "program", "why"], *lines], left=(0, 1, 2)), ""]
    return "\n".join(out)


def brief(reason: str) -> str:
    """Return the reason on one line of a table."""
    return shorten(reason.replace("|", "/"), 120, placeholder=" ...")


def aligned(lines: list[list[str]], left: tuple[int, ...] = ()) -> list[str]:
    """Return the lines of a Markdown table with aligned columns; the first line is the heading.

    The columns in `left` are text, the others numbers.
    """
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def padded(line: list[str]) -> str:
        cells = [
            text.ljust(w) if i in left else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))
        ]
        return "| " + " | ".join(cells) + " |"

    rule = "|".join("-" * (w + 2) if i in left else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    return [padded(lines[0]), f"|{rule}|", *map(padded, lines[1:])]


def records(rows: list[Row]) -> list[dict[str, object]]:
    """Return a record for each row and program, for JSON."""
    return [
        {
            "group": row.cell.group,
            "row": row.title,
            "unit": row.metric.unit,
            "class": row.near,
            "rtt_ns": round(row.rtt_ns, 1),
            "program": program,
            "median": figure.median,
            "low": figure.low,
            "high": figure.high,
            "runs": figure.runs,
            "verbena_is_better_by": row.ratio(program),
        }
        for row in rows
        for program, figure in row.figures.items()
    ]
