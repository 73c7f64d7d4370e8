# SPDX-License-Identifier: Apache-2.0
"""Ten lines about the tables of all four systems: which is faster, by what ratio, and how sure.

A comparison is of two rows that differ in one column. The interval of their ratio is from the low
end of one over the high end of the other, so it is wider than 95 %.
"""

from __future__ import annotations

from typing import NamedTuple

WIDTH = 80
Row = dict
Cell = dict[str, object]


class Comparison(NamedTuple):
    subject: str
    table: str  # the file's stem
    figure: str  # a column with an interval
    first: tuple[str, Cell]
    second: tuple[str, Cell]


SIXTEEN = {"concurrency": 16}
COMPARISONS = (
    Comparison(
        "SEND 64 B, window 64",
        "rcud",
        "mops",
        ("RC", {"mode": "RC", "msg": 64, "window": 64, "window_mode": "local"}),
        ("UD", {"mode": "UD", "msg": 64, "window": 64, "window_mode": "local"}),
    ),
    Comparison(
        "SEND 4 KiB, window 64",
        "rcud",
        "mops",
        ("RC", {"mode": "RC", "msg": 4096, "window": 64, "window_mode": "local"}),
        ("UD", {"mode": "UD", "msg": 4096, "window": 64, "window_mode": "local"}),
    ),
    *(
        Comparison(
            f"echoes, {clients} clients",
            "scale",
            "messages_per_second",
            ("RDMA", {"transport": "rdma", "clients": clients}),
            ("TCP", {"transport": "tcp", "clients": clients}),
        )
        for clients in (10, 1000)
    ),
    *(
        Comparison(
            f"calls of {size}, 16 in flight",
            "rpc",
            "qps",
            ("RDMA", SIXTEEN | {"request_size": size, "transport": "rdma"}),
            ("TCP", SIXTEEN | {"request_size": size, "transport": "tcp"}),
        )
        for size in ("128B", "1M")
    ),
    *(
        Comparison(
            f"GET {name}, window 16",
            "kv",
            "operations_per_second",
            ("eager", {"op": "GET", "value_bytes": size, "window": 16, "proto": "eager"}),
            ("rendezvous", {"op": "GET", "value_bytes": size, "window": 16, "proto": "rendezvous"}),
        )
        for name, size in (("64 B", 64), ("64 KiB", 65536))
    ),
)


def find(rows: list[Row], cell: Cell) -> Row | None:
    return next((row for row in rows if cell.items() <= row.items()), None)


def bounds(row: Row, figure: str) -> tuple[float, float, float] | None:
    values = [row.get(name) for name in (f"{figure}_low", figure, f"{figure}_high")]
    if not all(isinstance(value, int | float) and value > 0 for value in values):
        return None
    return values[0], values[1], values[2]


def judgement(first: Row, second: Row, low: float, high: float) -> str:
    if "invalid" in (first["validity"], second["validity"]):
        return "invalid"
    if "suspect" in (first["validity"], second["validity"]):
        return "suspect"
    return "sure" if low > 1 or high < 1 else "no difference"


def line(comparison: Comparison, rows: list[Row]) -> str:
    """Return the line of a comparison, at most WIDTH columns."""
    (name, cell), (other_name, other_cell) = comparison.first, comparison.second
    first, second = find(rows, cell), find(rows, other_cell)
    ours, theirs = (bounds(row, comparison.figure) if row else None for row in (first, second))
    if not first or not second or ours is None or theirs is None:
        return f"{comparison.subject:<28} not measured"
    low, ratio, high = ours[0] / theirs[2], ours[1] / theirs[1], ours[2] / theirs[0]
    if ratio < 1:
        name, other_name = other_name, name
        low, ratio, high = 1 / high, 1 / ratio, 1 / low
    said = judgement(first, second, low, high)
    return f"{comparison.subject:<28} {name} {ratio:.2f} x {other_name} [{low:.2f}, {high:.2f}] {said}"


def summary(tables: dict[str, list[Row]], page: str) -> list[str]:
    """Return a line for each comparison, what they mean, and where the page is."""
    lines = [line(each, tables.get(each.table, [])) for each in COMPARISONS]
    lines.append("median ratio [interval]; suspect, invalid: the page says why")
    lines.append(f"page: {page}")
    return lines
