# SPDX-License-Identifier: Apache-2.0
"""Compares two rows of one cell: which is faster, by what ratio, and how sure.

A ratio's interval follows from the 95 % intervals of both rows, from the low end of one over the
high end of the other. A winner is named only if those intervals do not overlap. Rows that are not
valid, or that were measured at different core-to-core round trips, are not compared. If a table has
two rows of a cell, neither is compared, because nothing says which one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from report.tables import Row, divide

RTT_DRIFT_MAX = 1.5  # the ratio of core-to-core round trips up to which rows are compared
NO_DIFFERENCE, NOT_COMPARED = "no difference", "n/a"
TWICE = "two rows of this cell"
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
    twice: bool = False  # the table has two rows of this cell

    @property
    def obstacle(self) -> str:
        """Why the two cannot be compared; empty if they can."""
        if self.twice:
            return TWICE
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


@dataclass(frozen=True)
class Pair(Generic[RowType]):
    """Two rows of one cell. If the table has several rows of it, these are two of them."""

    one: RowType
    other: RowType
    twice: bool

    @property
    def obstacle(self) -> str:
        """Why two rows that are both usable are not compared; empty if they are."""
        return TWICE if self.twice else drift(self.one, self.other)

    @property
    def counts(self) -> bool:
        """True if a claim may rest on the two."""
        return self.one.usable and self.other.usable and not self.obstacle


def repeated(rows: Iterable[RowType], key: Callable[[RowType], Hashable]) -> set[Hashable]:
    """Return the keys that two or more rows have."""
    return {each for each, number in Counter(map(key, rows)).items() if number > 1}


def unique_by(rows: Iterable[RowType], key: Callable[[RowType], Hashable]) -> dict[Hashable, RowType]:
    """Return the rows by their key, without those whose key another row has too."""
    rows = list(rows)
    twice = repeated(rows, key)
    return {key(row): row for row in rows if key(row) not in twice}


def paired(
    ones: Iterable[RowType], others: Iterable[RowType], key: Callable[[RowType], Hashable]
) -> list[Pair[RowType]]:
    """Return a pair for each key that rows of both kinds have, in the order of `others`."""
    ones, others = list(ones), list(others)
    twice = repeated(ones, key) | repeated(others, key)
    first, second = ({key(row): row for row in reversed(rows)} for rows in (ones, others))
    return [Pair(first[each], second[each], each in twice) for each in dict.fromkeys(map(key, others)) if each in first]


def drift(*rows: Row) -> str:
    """Say that the core-to-core round trip differs between rows; empty if it does not."""
    trips = [trip for row in rows for trip in row.round_trips]
    if trips and max(trips) > RTT_DRIFT_MAX * min(trips):
        return f"core-to-core round trip moved between {min(trips):.0f} and {max(trips):.0f} ns"
    return ""


def interval_text(bounds: tuple[float, float, float]) -> str:
    low, middle, high = bounds
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
