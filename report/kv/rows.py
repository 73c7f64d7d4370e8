"""Rows of the key-value store: tables of `verbena bench kv`, or a CSV with the four published
columns.

A `Row` is one cell: SET or GET, the protocol that was requested (`proto`) and the one that was used
(`protocol`), the size of a value, and the operations under way. Rows of a sweep over one parameter
(`varied`) are kept apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from report import tables
from report.tables import NOT_COMPARABLE, PUBLISHED, Table, TableError, read_table, rows_of

KEYS = ("op", "protocol", "value_bytes", "gigabytes_per_second")
WORDS = ("experiment", "op", "proto", "protocol", "form", "transport", "device", "varied")
RATE, GIGABYTES = "operations_per_second", "gigabytes_per_second"
EAGER, RENDEZVOUS, AUTO, ONE_SIDED = "eager", "rendezvous", "auto", "one-sided"
SLOW, FAST = 0.7, 1.5  # as in bench/kv/check.cc


class Row(tables.Row):
    @property
    def op(self) -> str:
        return self.words["op"]

    @property
    def proto(self) -> str:
        """The protocol that was requested; for published rows the one that they name."""
        return self.words["proto"] or self.words["protocol"]

    @property
    def way(self) -> str:
        """The protocol, and for a SET by the client's WRITE its form."""
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
    def name(self) -> str:
        many = f", {self.clients} clients" if self.clients > 1 else ""
        tcp = ", tcp" if self.transport == "tcp" else ""
        return f"{self.op} {self.way} {size_text(self.size)}, window {self.window}{many}{tcp}{self._varied()}"

    def _varied(self) -> str:
        return f", {self.varied} {parameter(self):g}" if self.varied else ""


def parameter(row: Row) -> float:
    """Return the value of the parameter that a sweep varied."""
    return row.values[{"depth": "rx_depth", "warmup": "warmup", "iters": "iters", "stalled": "stalled"}[row.varied]]


def size_text(size: int) -> str:
    for unit, letter in ((2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


class Source(tables.Source[Row]):
    def cells(self, way: str, load: tuple[str, int, int, str] | None = None) -> list[Row]:
        """Return the usable rows of a way outside of sweeps, by size."""
        rows = [
            row for row in self.rows if row.usable and not row.varied and row.way == way and load in (None, row.load)
        ]
        return sorted(rows, key=lambda row: row.size)

    def loads(self) -> list[tuple[str, int, int, str]]:
        return sorted(
            {row.load for row in self.rows if not row.varied}, key=lambda load: (load[3], load[0] != "SET", load[1:3])
        )

    def pairs(self, way: str = RENDEZVOUS) -> list[tuple[Row, Row]]:
        """Return pairs of usable rows, eager and another way, with the same size and load."""
        eager = {(row.load, row.size): row for row in self.cells(EAGER)}
        both = [(eager.get((row.load, row.size)), row) for row in self.cells(way)]
        return [(one, other) for one, other in both if one is not None]

    def sweep(self, varied: str) -> dict[tuple[object, ...], list[Row]]:
        """Return the usable rows of a sweep, in groups that differ in the parameter only."""
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in sorted((row for row in self.rows if row.varied == varied), key=parameter):
            if row.usable or (varied != "depth" and row.validity == "suspect"):
                groups.setdefault((row.load, row.way, row.size), []).append(row)
        return groups


def read(table: Table, label: str | None = None) -> Source:
    for place, item in table.items:
        if item.get("op") not in ("SET", "GET"):
            raise TableError(f"{table.path}: {place}: op {item.get('op', '')!r} is neither SET nor GET")
    rows = _rows(table)
    return Source(label or table.path.stem, table.environment, rows, published=rows == published().rows)


@cache
def published() -> Source:
    """Return the published table, judged by the same rules as any table without verdicts."""
    return Source("published", {}, _rows(read_table(PUBLISHED / "kv_set_get.csv")), published=True)


def _rows(table: Table) -> tuple[Row, ...]:
    rows = rows_of(table, Row, WORDS, ("value_bytes",))
    if any(row.validity != NOT_COMPARABLE for row in rows):
        return rows
    bad: dict[int, tuple[str, str]] = {}
    for op in ("SET", "GET"):
        curves = {
            way: [place for place, row in enumerate(rows) if (row.op, row.way) == (op, way) and row.get(GIGABYTES)]
            for way in (EAGER, RENDEZVOUS)
        }
        _find_outliers(rows, curves[EAGER], bad)
        _find_mislabelled(rows, curves[EAGER], curves[RENDEZVOUS], bad)
        _find_outliers(rows, curves[RENDEZVOUS], bad)
    judged = (bad.get(place, ("valid", "")) for place in range(len(rows)))
    return tuple(
        replace(row, validity=verdict, reason=reason) for row, (verdict, reason) in zip(rows, judged, strict=True)
    )


def _expected(one: Row, other: Row, size: int) -> float:
    """Return the throughput at another size on the line through two rows, on logarithmic scales."""
    slope = math.log(other.values[GIGABYTES] / one.values[GIGABYTES]) / math.log(other.size / one.size)
    return one.values[GIGABYTES] * (size / one.size) ** slope


def _find_outliers(rows: tuple[Row, ...], curve: list[int], bad: dict[int, tuple[str, str]]) -> None:
    """Judge inner rows first, so that both ends are compared with good rows only."""

    def judge(place: int, one: int, other: int) -> bool:
        row, a, b = rows[place], rows[one], rows[other]
        times = _expected(a, b, row.size) / row.values[GIGABYTES]
        if times <= 1 / SLOW:
            return False
        bad[place] = ("suspect", f"{times:.1f} times slower than the curve through the sizes {a.size} and {b.size}")
        return True

    at = 1
    while at + 1 < len(curve):
        if judge(curve[at], curve[at - 1], curve[at + 1]):
            del curve[at]
        else:
            at += 1
    if len(curve) >= 3 and judge(curve[-1], curve[-3], curve[-2]):
        del curve[-1]
    if len(curve) >= 3 and judge(curve[0], curve[1], curve[2]):
        del curve[0]


def _find_mislabelled(
    rows: tuple[Row, ...], eager: list[int], rendezvous: list[int], bad: dict[int, tuple[str, str]]
) -> None:
    if len(eager) < 2 or len(rendezvous) < 3:
        return
    first = rows[rendezvous[0]]
    own = _expected(rows[rendezvous[1]], rows[rendezvous[2]], first.size)
    ratio = first.values[GIGABYTES] / _expected(rows[eager[-2]], rows[eager[-1]], first.size)
    if rows[eager[-1]].size >= first.size or first.values[GIGABYTES] < FAST * own or not SLOW <= ratio <= 1 / SLOW:
        return
    times = first.values[GIGABYTES] / own
    bad[rendezvous[0]] = (
        "mislabelled",
        f"{times:.1f} times the curve through the other sizes of rendezvous, and on the curve of eager: it was eager",
    )
    del rendezvous[0]
