# SPDX-License-Identifier: Apache-2.0
"""Rows of calls: of `verbena bench rpc`, or a CSV with the six published columns.

A `Row` is one cell: a size, a number of requests in flight, a transport and a mode (sink: the
answer is a short word; echo: it is the request's bytes). Rows of other systems (`rival`) are kept
apart, and so are pairs of rows with and without one behaviour (`without`). The verdict on a row is
that of `verbena check`.
"""

from __future__ import annotations

from report import tables
from report.compare import Pair, paired
from report.tables import Table, TableError, rows_of

WORDS = ("request_size", "transport", "mode", "system", "ablation", "without", "recv_mode", "memory")
UNITS = {"B": 1, "K": 2**10, "M": 2**20}
DIGITS_MAX = 11  # in the size of a request


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
    def rival(self) -> str:
        """The name of another system; empty for ours."""
        return self.words["system"] if self.words["system"] != "verbena" else ""

    @property
    def ablation(self) -> str:
        """The behaviour in which this row and another one differ; empty for most."""
        return self.words["ablation"]

    @property
    def apart(self) -> bool:
        return bool(
            self.rival
            or self.ablation
            or self.words["recv_mode"] == "per_connection"
            or self.words["memory"] == "registered"
        )

    @property
    def is_known(self) -> bool:
        """False for words that no experiment has; files must not get such names."""
        return self.transport in ("tcp", "rdma") and self.mode in ("sink", "echo")

    @property
    def cell(self) -> tuple[str, str, int, int, float | None]:
        """The columns in which rows agree that are compared with each other."""
        return (self.transport, self.mode, self.size, self.concurrency, self.get("connections"))

    @property
    def setting(self) -> tuple[object, ...]:
        """The columns beside the cell that rows with and without a behaviour share."""
        return self.words["recv_mode"], self.words["memory"], self.get("send_buffers"), self.get("seconds")

    @property
    def name(self) -> str:
        parts = [
            self.words["request_size"],
            f"x {self.concurrency}",
            self.rival,
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
        return [row for row in self.drawn(transport, mode) if row.usable]

    def drawn(self, transport: str, mode: str) -> list[Row]:
        """Return the rows of `cells`, and those that are not usable."""
        rows = [row for row in self.rows if (row.transport, row.mode) == (transport, mode) and not row.apart]
        return sorted(rows, key=lambda row: (row.size, row.concurrency))

    def pairs(self, ablation: str) -> list[tuple[Row, Row]]:
        """Return pairs of a cell that may be compared, with and without a behaviour."""
        return [(pair.other, pair.one) for pair in self.ablated(ablation) if pair.counts]

    def left_out(self, ablation: str) -> list[str]:
        """Name the pairs of usable rows that may not be compared, and say why."""
        return [
            f"{pair.other.name}: left out ({pair.obstacle})"
            for pair in self.ablated(ablation)
            if pair.obstacle and pair.one.usable and pair.other.usable
        ]

    def ablated(self, ablation: str) -> list[Pair[Row]]:
        """Return all pairs of rows of the same cell: one without a behaviour, the other with it."""
        rows = [row for row in self.rows if row.ablation == ablation]
        without, with_it = ([row for row in rows if bool(row.words["without"]) is off] for off in (True, False))
        return paired(without, with_it, lambda row: (row.rival, row.cell, *row.setting))


def read_rows(table: Table) -> tuple[Row, ...]:
    for item in table.items:
        text = str(item.values.get("request_size", ""))
        if not (text[-1:] in UNITS and text[:-1].isdecimal() and text.isascii() and len(text) <= DIGITS_MAX + 1):
            raise TableError(f"{table.path}: {item.place}: request_size {text!r} is no size such as 128B, 4K, 1M")
    return rows_of(table, Row, WORDS, ("concurrency",))
