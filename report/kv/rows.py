# SPDX-License-Identifier: Apache-2.0
"""Rows of the key-value store: tables of `verbena bench kv`, or a CSV with the four published
columns.

A `Row` is one cell: SET or GET, the protocol that was requested (`proto`) and the one that was used
(`protocol`), the size of a value, and the operations under way. Rows of a sweep over one parameter
(`varied`) and those of other systems are kept apart.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb
from statistics import median

from report import tables
from report.compare import Pair, drift, paired, repeated, unique_by
from report.tables import NUMBER_MAX, Table, TableError, rows_of

WORDS = ("op", "proto", "protocol", "form", "transport", "device", "varied", "system")
RATE, GIGABYTES = "operations_per_second", "gigabytes_per_second"
EAGER, RENDEZVOUS, AUTO, ONE_SIDED = "eager", "rendezvous", "auto", "one-sided"
TIMES_ALONE = "p99_times_alone"
OURS = "verbena"
# The columns that sweeps vary.
PARAMETERS = {"depth": "rx_depth", "warmup": "warmup", "iters": "iters", "stalled": "stalled"}
# The columns of numbers that rows must share to be compared. A column may be absent, in both rows.
SETTINGS = ("warmup", "iters", "rx_depth", "tx_depth", "eager_max", "stalled")


class Row(tables.Row):
    @property
    def p99s(self) -> list[float]:
        """The P99 of each repetition, in microseconds."""
        found = [each.get("p99_us") for each in self.repetitions]
        return [float(p99) for p99 in found if isinstance(p99, int | float) and p99 <= NUMBER_MAX]

    @property
    def op(self) -> str:
        return self.words["op"]

    @property
    def proto(self) -> str:
        """The protocol that was requested; for published rows the one that they name."""
        return self.words["proto"] or self.words["protocol"]

    @property
    def system(self) -> str:
        return self.words["system"] or OURS

    @property
    def way(self) -> str:
        """The protocol, with the form of a SET by the client's WRITE; or the other system."""
        if self.system != OURS:
            return f"{self.system}, {'unix socket' if self.transport == 'unix' else 'TCP'}"
        writes = self.words["form"] == "write" and self.proto == RENDEZVOUS
        return f"{self.proto} by write" if writes else self.proto

    @property
    def size(self) -> int:
        return int(self.values["value_bytes"])

    @property
    def window(self) -> int:
        return int(self.values.get("window", 1))

    @property
    def clients(self) -> int:
        return int(self.values.get("clients", 1))

    @property
    def transport(self) -> str:
        return self.words["transport"] or "rdma"

    @property
    def varied(self) -> str:
        """The parameter of a sweep; empty for other rows."""
        return self.words["varied"]

    @property
    def load(self) -> tuple[str, int, int, str]:
        """The values that cells must share, beside the size, to be compared."""
        return self.op, self.window, self.clients, self.transport

    @property
    def settings(self) -> tuple[float | None, ...]:
        """The settings that cells must share to be compared, without those that a sweep varies."""
        varied = {"depth": ("rx_depth", "tx_depth")}.get(self.varied, (self.varied,))
        return tuple(None if name in varied else self.get(name) for name in SETTINGS)

    @property
    def cell(self) -> tuple[object, ...]:
        """All that the rows of different ways must share to be compared."""
        return self.load, self.size, self.settings

    @property
    def name(self) -> str:
        many = f", {self.clients} clients" if self.clients > 1 else ""
        tcp = ", tcp" if self.transport == "tcp" and self.system == OURS else ""
        return f"{self.op} {self.way} {size_text(self.size)}, window {self.window}{many}{tcp}{self._varied()}"

    def _varied(self) -> str:
        return f", {self.varied} {parameter(self):g}" if self.varied else ""


def parameter(row: Row) -> float:
    """Return the value of the parameter that a sweep varied."""
    return row.values.get(PARAMETERS[row.varied], 0.0)


def size_text(size: int) -> str:
    for unit, letter in ((2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


class Source(tables.Source[Row]):
    def cells(self, way: str, load: tuple[str, int, int, str] | None = None) -> list[Row]:
        """Return the usable rows of a way outside of sweeps, by size."""
        return [row for row in self.drawn(way, load) if row.usable]

    def drawn(self, way: str, load: tuple[str, int, int, str] | None = None) -> list[Row]:
        """Return the rows of `cells`, and those that are not usable."""
        rows = [row for row in self.rows if not row.varied and row.way == way and load in (None, row.load)]
        return sorted(rows, key=lambda row: row.size)

    def loads(self) -> list[tuple[str, int, int, str]]:
        ours = {row.load for row in self.rows if not row.varied and row.system == OURS}
        return sorted(ours, key=lambda load: (load[3], load[0] != "SET", load[1:3]))

    def rivals(self, load: tuple[str, int, int, str]) -> dict[str, list[Row]]:
        """Return the rows of other systems with the same operations under way, by way."""
        found: dict[str, list[Row]] = {}
        for row in sorted(self.rows, key=lambda row: row.size):
            if row.system != OURS and row.load[:3] == load[:3]:
                found.setdefault(row.way, []).append(row)
        return found

    def pairs(self, way: str = RENDEZVOUS) -> list[tuple[Row, Row]]:
        """Return pairs of rows that may be compared: eager and another way, of the same cell."""
        return [(pair.one, pair.other) for pair in self.drawn_pairs(way) if pair.counts]

    def drawn_pairs(self, way: str = RENDEZVOUS) -> list[Pair[Row]]:
        """Return the pairs of `pairs`, and those that may not be compared."""
        return paired(self.drawn(EAGER), self.drawn(way), lambda row: row.cell)

    def left_out(self) -> list[str]:
        """Name the pairs of usable rows that may not be compared, and say why."""
        return [
            f"{pair.other.name}: left out ({pair.obstacle})"
            for pair in self.drawn_pairs()
            if pair.obstacle and pair.one.usable and pair.other.usable
        ]

    def sweep(self, varied: str) -> dict[tuple[object, ...], list[Row]]:
        """Return the usable rows of a sweep, in groups that differ in the parameter only."""
        groups: dict[tuple[object, ...], list[Row]] = {}
        swept = unique_by(
            (row for row in self.rows if row.varied == varied), lambda row: (row.cell, row.way, parameter(row))
        )
        for row in sorted(swept.values(), key=parameter):
            if row.usable or (varied != "depth" and row.validity == "suspect"):
                groups.setdefault((row.cell, row.way), []).append(row)
        return {key: rows for key, rows in groups.items() if not drift(*rows)}


def read_rows(table: Table) -> tuple[Row, ...]:
    for item in table.items:
        op, varied = item.values.get("op", ""), item.values.get("varied", "")
        if op not in ("SET", "GET"):
            raise TableError(f"{table.path}: {item.place}: op {op!r} is neither SET nor GET")
        if varied and varied not in PARAMETERS:
            raise TableError(f"{table.path}: {item.place}: varied {varied!r} is not one of {', '.join(PARAMETERS)}")
    return _with_times_alone(rows_of(table, Row, WORDS, ("value_bytes",)))


def _with_times_alone(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Add the cost of stalled clients: the P99 of each repetition beside them over the one without.

    The two repetitions were measured in turn, so each pair had one distance between the processors.
    A row has no cost if it is invalid, or if the table has two rows of its cell.
    """

    def cell(row: Row) -> tuple[object, ...]:
        return row.cell, row.way

    swept = [row for row in rows if row.varied == "stalled"]
    alone = unique_by((row for row in swept if not row.values.get("stalled")), cell)
    twice = repeated(swept, lambda row: (cell(row), parameter(row)))
    made = []
    for row in rows:
        other = alone.get(cell(row)) if row.varied == "stalled" and row.values.get("stalled") else None
        if other is not None and (cell(row), parameter(row)) in twice:
            other = None
        both = list(zip(row.p99s, other.p99s, strict=False)) if other is not None else []
        times = sorted(with_them / without for with_them, without in both if without > 0)
        if other is None or not times or "invalid" in (row.validity, other.validity):
            made.append(row)
            continue
        low, high = median_interval(times)
        ends = {TIMES_ALONE: median(times), f"{TIMES_ALONE}_low": low, f"{TIMES_ALONE}_high": high}
        made.append(replace(row, values=row.values | ends))
    return tuple(made)


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of sorted values, as base/statistics.h does."""
    count, best = len(values), 1
    while 2 * (best + 1) <= count and 1 - 2 * sum(comb(count, few) for few in range(best + 1)) / 2**count >= 0.95:
        best += 1
    return values[best - 1], values[count - best]
