# SPDX-License-Identifier: Apache-2.0
"""Charts as values, which the page draws interactively and `pictures` as PNG and SVG.

A line joins valid rows. Its suspect and invalid rows are points of their own, which no line joins
and which are never left out. Published figures and rivals are faint, behind the others. Intervals
are the 95 % intervals of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from report.tables import Row

# Names of colours, which page.css and pictures.py define.
BLUE, ORANGE, GREEN, PINK, GOLD, SKY, INK, MUTED = "blue", "orange", "green", "pink", "gold", "sky", "ink", "muted"
COLOURS = (BLUE, ORANGE, GREEN, PINK, GOLD, SKY, INK)
MARKERS = "os^Dvph"


@dataclass(frozen=True)
class Point:
    x: float
    low: float
    middle: float
    high: float
    validity: str = "valid"
    reason: str = ""


@dataclass(frozen=True)
class Line:
    label: str
    gid: str  # id of the line in the SVG
    colour: str
    points: list[Point]
    doubtful: list[Point] = field(default_factory=list)  # rows that are not valid
    dashed: bool = False
    marker: str = MARKERS[0]
    behind: bool = False  # published figures and rivals: faint, behind the other lines


@dataclass(frozen=True)
class Chart:
    name: str  # stem of the files
    title: str
    subtitle: str
    x_axis: str
    y_axis: str
    ticks: dict[float, str]
    lines: list[Line]
    notes: list[str]  # such as the rows that have no figure
    log_y: bool = True

    @property
    def description(self) -> str:
        """The alternative text, for readers who cannot see the picture: both ends of each line."""
        parts = []
        for line in self.lines:
            if line.points and not line.behind:
                ends = " to ".join(f"{point.middle:.3g} at {point.x:g}" for point in (line.points[0], line.points[-1]))
                parts.append(f"{line.label}: {ends}")
        return f"{self.title}. {self.y_axis}. {'; '.join(parts)}."


def line_of(
    rows: Iterable[Row], column: str, x: Callable[[Row], float], label: str, gid: str, colour: str, **more: object
) -> Line:
    """Return a line through the values of a column, with their intervals; `x` returns a row's x."""
    good, doubtful = [], []
    for row in rows:
        if row.get(column) and x(row) > 0:
            point = Point(x(row), *row.interval(column), row.validity, row.reason)
            (good if row.usable else doubtful).append(point)
    return Line(label, gid, colour, sorted(good, key=_x), sorted(doubtful, key=_x), **more)


def _x(point: Point) -> float:
    return point.x


def gid_of(*parts: str) -> str:
    return "-".join("".join(c if c.isalnum() or c in "._" else "-" for c in part) for part in parts)


def without_figures(rows: Iterable[Row], name: Callable[[Row], str], column: str) -> list[str]:
    """Return a note that lists the rows without a figure, by their reasons."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row.get(column):
            reasons.setdefault(f"{row.validity}, {row.reason}" if row.reason else row.validity, []).append(name(row))
    return [
        f"No figure: {'; '.join(names[:6])}{f'; and {len(names) - 6} more' if len(names) > 6 else ''} ({reason})."
        for reason, names in reasons.items()
    ]
