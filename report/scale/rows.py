# SPDX-License-Identifier: Apache-2.0
"""Rows of many clients: of `verbena bench scale` or `performance_test --json`, or the published
CSV.

A `Row` is one cell: a system (ours or a rival), a transport, a number of clients and an offered
rate. A rate of 0 means that each client sends a message when the echo of the last one has arrived.
The verdicts are those of `verbena check`.
"""

from __future__ import annotations

from report import tables
from report.compare import Pair, paired
from report.tables import Table, rows_of

WORDS = ("system", "transport", "connect", "engine", "without", "server")
# The columns of the clients' work and its duration. A column may be absent, in both rows.
SETTINGS = ("messages", "think_ms", "stagger_ms", "handshakes", "seconds", "warmup_s")


class Row(tables.Row):
    @property
    def system(self) -> str:
        """Our own, verbena, or a rival; empty if the table does not say."""
        return self.words["system"]

    @property
    def is_rival(self) -> bool:
        return self.system not in ("", "verbena")

    @property
    def transport(self) -> str:
        """rdma or tcp; empty if the table does not say."""
        return self.words["transport"]

    @property
    def clients(self) -> int:
        return int(self.values["clients"])

    @property
    def rate(self) -> float:
        return self.values.get("rate", 0.0)

    @property
    def engine(self) -> str:
        """The engine of the server: epoll, uring or threads."""
        return self.words["engine"]

    @property
    def apart(self) -> str:
        """The condition that makes this row special, such as no TLS; empty for a plain row."""
        left_out = f"without {self.words['without']}" if self.words["without"] else ""
        stalled = f"with {self.values['stalled']:.0f} stalled callers" if self.get("stalled") else ""
        joined = {
            "clear": "in clear",
            "rdmacm": "connected by rdma_cm",
            "rdmacm-clear": "connected by rdma_cm in clear",
        }.get(self.words["connect"], "")
        asked = "by io_uring" if self.engine == "uring" else ""
        return ", ".join(filter(None, [joined, left_out, stalled, asked]))

    @property
    def work(self) -> tuple[object, ...]:
        """The values that rows of different engines must share to be compared."""
        return self.transport, self.clients, *self.load

    @property
    def load(self) -> tuple[object, ...]:
        """The work of a row, whatever its transport and its number of clients are."""
        numbers = ("rate", "size", "window", "shared_qps", "stalled")
        return (
            self.words["connect"],
            self.words["without"],
            *(self.values.get(name, 0.0) for name in numbers),
            *(self.get(name) for name in SETTINGS),
        )

    @property
    def is_plain(self) -> bool:
        return not self.shared and not self.apart and not self.is_rival

    @property
    def name(self) -> str:
        kinds = [
            self.system if self.is_rival else "",
            f"shared by {self.shared}" if self.shared else "",
            "threads" if self.engine == "threads" else "",
            self.apart,
            f"at {self.rate:.0f}/s" if self.rate else "",
        ]
        return " ".join(filter(None, [f"{self.clients:,}", self.transport, *kinds]))

    @property
    def shared(self) -> int:
        """The number of connections that logical clients share; 0 if each has its own."""
        return int(self.values.get("shared_qps", 0))


class Source(tables.Source[Row]):
    def cells(self, transport: str, paced: bool = False) -> list[Row]:
        """Return usable rows of a transport by clients, unpaced or at the lowest offered rate.

        Only plain rows of the event-driven server count, whose clients have connections of their
        own.
        """
        return [row for row in self.drawn(transport, paced) if row.usable]

    def drawn(self, transport: str, paced: bool = False) -> list[Row]:
        """Return the rows of `cells`, and those that are not usable."""
        rows = [
            row
            for row in self.rows
            if row.is_plain and row.transport == transport and (row.rate > 0) == paced and row.engine != "threads"
        ]
        lowest = min((row.rate for row in rows), default=0.0)
        return sorted((row for row in rows if row.rate == lowest), key=lambda row: row.clients)

    @property
    def plain(self) -> list[Row]:
        return [row for row in self.rows if row.usable and row.is_plain]

    def threads(self) -> list[Row]:
        """Return usable unpaced rows over RDMA of the engine with a thread for each client."""
        rows = [row for row in self.plain if row.transport == "rdma" and row.engine == "threads" and not row.rate]
        return sorted(rows, key=lambda row: row.clients)

    def both_engines(self) -> list[Pair[Row]]:
        """Return pairs of unpaced rows over RDMA that did the same work, by clients.

        The first is of the event-driven server, the second of the one with a thread for each
        client. Rows that are not usable are among them, because they too make a cell ambiguous.
        """
        rows = [row for row in self.rows if row.is_plain and row.transport == "rdma" and not row.rate]
        driven, own = ([row for row in rows if (row.engine == "threads") is each] for each in (False, True))
        return sorted(paired(driven, own, lambda row: row.work), key=lambda pair: pair.one.clients)

    @property
    def transports(self) -> list[str]:
        return sorted({row.transport for row in self.rows if not row.is_rival})


def read_rows(table: Table) -> tuple[Row, ...]:
    return rows_of(table, Row, WORDS, ("clients",))
