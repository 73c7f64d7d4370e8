"""Rows of calls: of `verbena bench rpc`, or a CSV with the six published columns.

A `Row` is one cell: a size, a number of requests in flight, a transport and a mode (sink: the
answer is a short word; echo: it is the request's bytes). Rows of other systems (`peer`) are kept
apart, and so are pairs of rows with and without one behaviour (`without`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from report import tables
from report.tables import NOT_COMPARABLE, PUBLISHED, Table, TableError, read_table, rows_of

KEYS = ("request_size", "concurrency", "qps")
WORDS = ("request_size", "transport", "mode", "device", "peer", "ablation", "without", "recv_mode", "memory")
UNITS = {"B": 1, "K": 2**10, "M": 2**20}
PRODUCT_TOLERANCE = 0.01  # as in bench/rpc


class Row(tables.Row):
    @property
    def size(self) -> int:
        """The bytes of a request."""
        text = self.words["request_size"]
        return int(text[:-1]) * UNITS[text[-1]]

    @property
    def concurrency(self) -> int:
        return int(self.values["concurrency"])

    @property
    def transport(self) -> str:
        """rdma or tcp; the published rows are rdma."""
        return self.words["transport"] or "rdma"

    @property
    def mode(self) -> str:
        return self.words["mode"] or "sink"

    @property
    def peer(self) -> str:
        """The name of another system; empty for ours."""
        return self.words["peer"]

    @property
    def ablation(self) -> str:
        """The behaviour in which this row and another one differ; empty for most."""
        return self.words["ablation"]

    @property
    def apart(self) -> bool:
        return bool(
            self.peer
            or self.ablation
            or self.words["recv_mode"] == "per_connection"
            or self.words["memory"] == "registered"
        )

    @property
    def name(self) -> str:
        parts = [
            self.words["request_size"],
            f"x {self.concurrency}",
            self.peer,
            self.transport,
            self.mode if self.mode != "sink" else "",
        ]
        parts.append("per-connection buffers" if self.words["recv_mode"] == "per_connection" else "")
        parts.append("registered" if self.words["memory"] == "registered" else "")
        if self.ablation:
            parts.append(f"without {self.ablation}" if self.words["without"] else f"with {self.ablation}")
        return " ".join(filter(None, parts))


class Source(tables.Source[Row]):
    def cells(self, transport: str, mode: str) -> list[Row]:
        """Return our usable rows with all behaviours switched on."""
        rows = [
            row for row in self.rows if (row.transport, row.mode) == (transport, mode) and row.usable and not row.apart
        ]
        return sorted(rows, key=lambda row: (row.size, row.concurrency))

    def pairs(self, ablation: str) -> list[tuple[Row, Row]]:
        """Return pairs of usable rows of the same cell, with and without a behaviour."""
        rows = [row for row in self.rows if row.ablation == ablation and row.usable]
        off = {(row.transport, row.mode, row.size, row.concurrency): row for row in rows if row.words["without"]}
        pairs = [
            (row, off.get((row.transport, row.mode, row.size, row.concurrency)))
            for row in rows
            if not row.words["without"]
        ]
        return [(on, other) for on, other in pairs if other is not None]


def read(table: Table, label: str | None = None) -> Source:
    for place, item in table.items:
        text = item.get("request_size", "")
        if not (text[-1:] in UNITS and text[:-1].isdigit()):
            raise TableError(f"{table.path}: {place}: request_size {text!r} is no size such as 128B, 4K, 1M")
    rows = _rows(table)
    return Source(label or table.path.stem, table.environment, rows, published=rows == published().rows)


@cache
def published() -> Source:
    """Return the published table, judged by the same rules as any table."""
    return Source("published", {}, _rows(read_table(PUBLISHED / "rpc_rdma.csv")), published=True)


def _rows(table: Table) -> tuple[Row, ...]:
    rows = rows_of(table, Row, WORDS, ("concurrency",))
    digits = [item.get("gigabits_per_second", "").partition(".")[2] for _, item in table.items]
    return tuple(_judge(row, 0.5 * 10.0 ** -len(after)) for row, after in zip(rows, digits, strict=True))


def _judge(row: Row, rounding: float) -> Row:
    """Judge a row: QPS x size against Gb/s, and P90 against the mean by Little's law."""
    if row.validity != NOT_COMPARABLE:
        return row
    needed = [row.get(name) for name in ("qps", "gigabits_per_second", "p90_us")]
    if not all(needed):
        return replace(row, validity="invalid", reason="a number is missing")
    qps, stated, p90 = needed
    gigabits = qps * row.size * 8 / 1e9
    if abs(gigabits - stated) > PRODUCT_TOLERANCE * stated + rounding:
        return replace(
            row, validity="invalid", reason=f"QPS x size is {gigabits:.2f} Gb/s, but the row has {stated:.2f}"
        )
    mean = row.concurrency / qps * 1e6
    if p90 < mean:
        return replace(
            row, validity="suspect", reason=f"P90 is below the mean of {mean:.0f} us that QPS and concurrency give"
        )
    return replace(row, validity="valid")
