# SPDX-License-Identifier: Apache-2.0
"""Compares two rows of one cell: which is faster, by what ratio, and how sure.

A ratio's interval follows from the 95 % intervals of both rows, from the low end of one over the
high end of the other. A winner is named only if those intervals do not overlap. Rows that are not
valid, or that were measured at different core-to-core round trips, are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from report.tables import Row, divide

RTT_DRIFT_MAX = 1.5  # the ratio of core-to-core round trips up to which rows are compared
NO_DIFFERENCE, NOT_COMPARED = "no difference", "n/a"
RowType = TypeVar("RowType", bound=Row)


@dataclass(frozen=True)
class Question:
    """Which of two things is faster, asked in many cells."""

    title: str
    first: str
    second: str
    unit: str  # the unit of the figure that is compared
    note: str = ""


@dataclass(frozen=True)
class Comparison(Generic[RowType]):
    """The answer in one cell. The ratios may be used only if there is no obstacle."""

    question: Question
    group: str  # cells of one group are counted together; may be empty
    where: str  # the cell in words
    figure: str  # the column that is compared; more is better
    one: RowType | None
    other: RowType | None

    @property
    def obstacle(self) -> str:
        """Why the two cannot be compared; empty if they can."""
        for name, row in ((self.question.first, self.one), (self.question.second, self.other)):
            if row is None:
                return f"no {name} row"
            if not row.usable:
                return f"{name} {row.fault}"
            if row.get(self.figure) is None:
                return f"{name} has no figure"
            if not row.get(self.figure):
                return f"{name} delivered nothing"
        return drift(self.one, self.other) if self.one and self.other else ""

    @property
    def validity(self) -> str:
        """The worst validity of the two rows; "not comparable" for any other obstacle."""
        for validity in ("invalid", "suspect", "mislabelled"):
            if any(row is not None and row.validity == validity for row in (self.one, self.other)):
                return validity
        return "not comparable" if self.obstacle else "valid"

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The second over the first: least, middle and greatest."""
        return ratio(self.other, self.one, self.figure)

    @property
    def ratio_low(self) -> float:
        return self.bounds[0]

    @property
    def ratio(self) -> float:
        return self.bounds[1]

    @property
    def ratio_high(self) -> float:
        return self.bounds[2]

    @property
    def winner(self) -> str:
        """The faster one's name, "no difference", or "n/a" where there is an obstacle."""
        if self.obstacle:
            return NOT_COMPARED
        if self.ratio_low > 1.0:
            return self.question.second
        return self.question.first if self.ratio_high < 1.0 else NO_DIFFERENCE


def ratio(one: Row, other: Row, figure: str) -> tuple[float, float, float]:
    """Return one divided by the other: least, middle and greatest by their intervals."""
    (low, middle, high), (other_low, other_middle, other_high) = one.interval(figure), other.interval(figure)
    return divide(low, other_high), divide(middle, other_middle), divide(high, other_low)


def drift(one: Row, other: Row) -> str:
    """Say that the core-to-core round trip differs between two rows; empty if it does not."""
    trips = one.round_trips + other.round_trips
    if trips and max(trips) > RTT_DRIFT_MAX * min(trips):
        return f"core-to-core round trip moved between {min(trips):.0f} and {max(trips):.0f} ns"
    return ""


def interval_text(bounds: tuple[float, float, float]) -> str:
    low, middle, high = bounds
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
