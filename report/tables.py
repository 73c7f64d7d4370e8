# SPDX-License-Identifier: Apache-2.0
"""The nouns of a report: a table as the judge has read it, a row of it, and a table with its label.

A `Row` is one row as numbers and words; an experiment's own `Row` adds names for its columns. A
value that the file does not have is None; nothing is guessed. Its validity is that of the judge.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Generic, Self, TypeVar

PUBLISHED = Path(__file__).resolve().parent.parent / "bench" / "published"
NO_VALUE = "–"  # in a table, where a row has no figure
# The words of `verbena check` for a table without evidence (bench/judge/judge.h).
NO_EVIDENCE = "no repetitions: its figures are taken from the file"
NUMBER_MAX = 1e18  # greater numbers, and those below 1 / NUMBER_MAX, are refused
# The columns, of rows or of their repetitions, that have the round trip of a cache line between the
# cores of both ends, in nanoseconds.
ROUND_TRIPS = ("rtt_before_ns", "rtt_after_ns", "round_trip_ns", "core_to_core_ns")


class TableError(Exception):
    """The file is not a table of this experiment; the message is one line for the user."""


@dataclass(frozen=True)
class Item:
    """A row of a file as the judge has read it."""

    place: str  # for messages
    values: dict[str, object]  # by column: a float, a text or a list
    cell: tuple[object, ...]  # the values of the columns that name the cell; "" if there is none
    rounding: dict[str, float]  # half a unit of the last digit, of figures that no repetitions give
    validity: str  # valid, n/a, suspect, invalid, not comparable, mislabelled
    reason: str


@dataclass(frozen=True)
class Table:
    path: Path
    experiment: str  # as in `verbena bench NAME`
    kind: str  # the device is software, hardware or unknown
    environment: dict[str, str]
    items: list[Item]


@dataclass(frozen=True)
class Row:
    words: dict[str, str]  # columns of text
    values: dict[str, float]  # columns of numbers; an empty cell has no entry
    validity: str = "valid"
    reason: str = ""
    repetitions: tuple[dict[str, object], ...] = ()
    judged_cell: tuple[object, ...] = ()  # rows of two runs are compared if it is the same
    is_bare: bool = False  # it has neither repetitions, nor a place in a published table

    def get(self, name: str) -> float | None:
        return self.values.get(name)

    def interval(self, name: str) -> tuple[float, float, float]:
        """Return low, middle and high; all three are the same value if there is no interval."""
        middle = self.values[name]
        return self.values.get(f"{name}_low", middle), middle, self.values.get(f"{name}_high", middle)

    def has_interval(self, name: str) -> bool:
        return f"{name}_low" in self.values and f"{name}_high" in self.values

    @property
    def usable(self) -> bool:
        """True if the row may support or contradict a claim."""
        return self.validity == "valid" and not self.is_bare

    @property
    def fault(self) -> str:
        """Why a row is not usable: "invalid: ..." or "valid, but no repetitions: ..."."""
        if self.is_bare and self.validity == "valid":
            return f"valid, but {NO_EVIDENCE}"
        return f"{self.validity}: {self.reason}" if self.reason else self.validity

    def without_evidence(self) -> Self:
        """Return the row as one whose figures follow from nothing, and which has no intervals."""
        values = {name: value for name, value in self.values.items() if not name.endswith(("_low", "_high"))}
        reason = "; ".join(part for part in (self.reason, NO_EVIDENCE) if part)
        return replace(self, values=values, reason=reason, is_bare=True)

    @property
    def device(self) -> str | None:
        return self.words.get("device") or None

    @property
    def round_trips(self) -> list[float]:
        """The core-to-core round trips at which the row was measured, in nanoseconds."""
        found = [self.values[name] for name in ROUND_TRIPS if self.values.get(name)]
        if not found:
            each = [one.get(name) for one in self.repetitions for name in ROUND_TRIPS]
            found = (
                [median(each)] if (each := [trip for trip in each if isinstance(trip, int | float) and trip]) else []
            )
        return found


RowType = TypeVar("RowType", bound=Row)


@dataclass(frozen=True)
class Source(Generic[RowType]):
    """One table with its label."""

    label: str
    environment: dict[str, str]
    rows: tuple[RowType, ...]
    published: bool = False
    judged_kind: str = "unknown"  # the device is software, hardware or unknown

    @property
    def kind(self) -> str:
        """Software, hardware, published or unknown."""
        return "published" if self.published else self.judged_kind

    @property
    def kind_text(self) -> str:
        return {
            "software": "software NIC",
            "hardware": "hardware NIC",
            "published": "published figures, the publishers' own",
            "unknown": "device not stated to be hardware or software",
        }[self.kind]

    @property
    def lacks_evidence(self) -> bool:
        return any(row.is_bare for row in self.rows)

    def doubt(self, figure: str) -> str:
        """Why no claim may rest on the environment's figures; empty if all rows are usable.

        Only rows that have this figure matter: the others were not measured.
        """
        measured = [row for row in self.rows if row.get(figure) is not None]
        if not measured:
            return "the table has no row that was measured"
        return next((f"a row of the table is {row.fault}" for row in measured if not row.usable), "")

    @property
    def device_text(self) -> str:
        """Return the devices and their kind, in words."""
        devices = ", ".join(sorted({row.device for row in self.rows if row.device})) or self.environment.get(
            "device", ""
        )
        return f"{devices}, {self.kind_text}" if devices else self.kind_text


def rows_of(
    table: Table, row_type: type[RowType], words: tuple[str, ...], needed: tuple[str, ...]
) -> tuple[RowType, ...]:
    """Return the rows of a table in an experiment's type.

    `words` are the columns of text. The numbers `needed` must be present and positive.
    """
    rows = []
    for item in table.items:
        try:
            values = {name: sound(value, name) for name, value in item.values.items() if isinstance(value, float)}
            for name in needed:
                if name not in values:
                    raise TableError(f"no {name}")
                if values[name] <= 0 or values[name] != int(values[name]):
                    raise TableError(f"{name} {values[name]:g} is not a positive whole number")
        except TableError as error:
            raise TableError(f"{table.path}: {item.place}: {error}") from None
        texts = {name: text if isinstance(text := item.values.get(name), str) else "" for name in words}
        listed = item.values.get("repetitions")
        repetitions = tuple(each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
        rows.append(row_type(texts, values, item.validity, item.reason, repetitions, item.cell))
    return tuple(rows)


def sound(value: float, name: str) -> float:
    """Return a number of a table; a TableError if arithmetic or a plot could overflow with it."""
    if value and not 1 / NUMBER_MAX <= value <= NUMBER_MAX:
        raise TableError(f"{name} {value:g} is not 0, and not from {1 / NUMBER_MAX:g} to {NUMBER_MAX:g}")
    return value


def labels(paths: list[Path], taken: Collection[str] = ()) -> list[str]:
    """Return the stem of each file, or its whole path if that stem is another one's too, or taken.

    No two labels are equal, and none is taken: a label stands for one table, its claims and lines.
    """
    stems = [path.stem for path in paths]
    found: list[str] = []
    for path, stem in zip(paths, stems, strict=True):
        name = label = stem if stems.count(stem) == 1 and stem not in taken else str(path)
        for number in count(2):
            if label not in found and label not in taken:
                break
            label = f"{name} ({number})"
        found.append(label)
    return found


def printable(text: str) -> str:
    """Return a text of a file without what would command a terminal."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def digits(value: float) -> str:
    """Format with three significant digits, no exponent and no padding (0.01 is not 0.0100)."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    # Rounding may add a digit: 9.998 is 10.0.
    size = math.floor(math.log10(abs(float(f"{value:.3g}"))))
    rounded = f"{value:.{max(0, 2 - size)}f}"
    return min(f"{value:.12g}", rounded, key=len) if abs(value) >= 0.001 else rounded


def divide(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf
