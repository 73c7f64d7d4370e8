# SPDX-License-Identifier: Apache-2.0
"""Rows of connecting: of `verbena bench connect`. No table of this experiment was published.

A `Row` is one cell: a way to connect, and a number of connects under way at once.
"""

from __future__ import annotations

from report import tables
from report.tables import Table, rows_of

WORDS = ("experiment", "connect", "device")
# The parts of a connect, by the prefix of their columns. They add up to the whole.
PARTS = {"address": "address", "route": "route", "queue_pair": "own queue pair", "connect": "connect"}


class Row(tables.Row):
    @property
    def connect(self) -> str:
        return self.words["connect"]

    @property
    def clients(self) -> int:
        return int(self.values["clients"])

    @property
    def name(self) -> str:
        return f"{self.clients} under way by {self.connect}"


class Source(tables.Source[Row]):
    def ways(self) -> list[str]:
        return list(dict.fromkeys(row.connect for row in self.rows))

    def drawn(self, way: str) -> list[Row]:
        return sorted((row for row in self.rows if row.connect == way), key=lambda row: row.clients)


def read_rows(table: Table) -> tuple[Row, ...]:
    return rows_of(table, Row, WORDS, ("clients",))
