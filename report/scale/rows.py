"""Rows of many clients: tables of `verbena bench scale` (or `performance_test --json`), or the published CSV.

A `Row` is one cell: a transport, a number of clients, an offered rate (0: each client sends as its echoes come).
"""

from __future__ import annotations

from functools import cache

from report import tables
from report.tables import PUBLISHED, Table, read_table, rows_of

KEYS = ("clients", "success_percent")
WORDS = ("experiment", "transport", "connect", "engine", "without")


class Row(tables.Row):
    @property
    def transport(self) -> str:
        """rdma, tcp; empty if the table does not say."""
        return self.words["transport"]

    @property
    def clients(self) -> int:
        return int(self.values["clients"])

    @property
    def rate(self) -> float:
        return self.values.get("rate", 0.0)

    @property
    def engine(self) -> str:
        """Of the server: epoll, uring, threads."""
        return self.words["engine"]

    @property
    def apart(self) -> str:
        """What this row leaves out on purpose, as TLS; empty for most."""
        left_out = f"without {self.words['without']}" if self.words["without"] else ""
        stalled = f"with {self.values['stalled']:.0f} stalled callers" if self.get("stalled") else ""
        joined = {"clear": "in clear", "rdmacm": "connected by rdma_cm"}.get(self.words["connect"], "")
        asked = "by io_uring" if self.engine == "uring" else ""
        return ", ".join(filter(None, [joined, left_out, stalled, asked]))

    @property
    def work(self) -> tuple[object, ...]:
        """What equal rows of different engines share."""
        numbers = ("clients", "rate", "size", "window", "shared_qps", "stalled")
        return (
            self.transport,
            self.words["connect"],
            self.words["without"],
            *(self.values.get(name, 0.0) for name in numbers),
        )

    @property
    def shared(self) -> int:
        """The connections that logical clients share; 0 where each has its own."""
        return int(self.values.get("shared_qps", 0))


class Source(tables.Source[Row]):
    def cells(self, transport: str, paced: bool = False) -> list[Row]:
        """Usable rows of a transport by clients: those that sent as fast as echoes came, or those at an offered rate (the lowest).

        Only rows of the event-driven server, whose clients have connections of their own and nothing is left out.
        """
        rows = [
            row
            for row in self.plain
            if row.transport == transport and (row.rate > 0) == paced and row.engine != "threads"
        ]
        lowest = min((row.rate for row in rows), default=0.0)
        return sorted((row for row in rows if row.rate == lowest), key=lambda row: row.clients)

    @property
    def plain(self) -> list[Row]:
        return [row for row in self.rows if row.usable and not row.shared and not row.apart]

    def threads(self) -> list[Row]:
        """Usable rows of the engine with a thread for each client, over RDMA, that sent as fast as echoes came."""
        rows = [row for row in self.plain if row.transport == "rdma" and row.engine == "threads" and not row.rate]
        return sorted(rows, key=lambda row: row.clients)

    def engine_pairs(self) -> list[tuple[Row, Row]]:
        """Usable rows by epoll and by io_uring that did the same."""
        rows = [row for row in self.rows if row.usable]
        by_epoll = {row.work: row for row in rows if row.engine == "epoll"}
        pairs = [(by_epoll.get(row.work), row) for row in rows if row.engine == "uring"]
        return [(epoll, uring) for epoll, uring in pairs if epoll]

    @property
    def transports(self) -> list[str]:
        return sorted({row.transport for row in self.rows})


def read(table: Table, label: str | None = None) -> Source:
    rows = rows_of(table, Row, WORDS, ("clients",))
    return Source(label or table.path.stem, table.environment, rows, published=rows == published().rows)


@cache
def published() -> Source:
    """The published table: its rows cannot be compared with each other (`verbena check` says why)."""
    return Source(
        "published",
        {},
        rows_of(read_table(PUBLISHED / "connection_scale.csv"), Row, WORDS, ("clients",)),
        published=True,
    )
