# SPDX-License-Identifier: Apache-2.0
"""Rows of RC against UD: of `verbena bench rcud`, or a CSV with the seven published columns.

A `Row` is one cell of the experiment. mops is 10^6 messages per second, gib is GiB/s (2^30 bytes);
both are counted by the receiver if the row has `delivered`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from report import tables
from report.tables import Table, TableError, rows_of, sound

WORDS = ("experiment", "mode", "op", "window_mode", "device", "rtt_class", "checked")
EXPERIMENTS = ("msg_sweep", "qp_sweep")
MODES = ("RC", "UD", "UD-seg")
OPS = ("send", "write", "read")
WINDOW_MODES = ("local", "credit")


class Row(tables.Row):
    @property
    def mode(self) -> str:
        return self.words["mode"]

    @property
    def op(self) -> str:
        return self.words["op"] or "send"

    @property
    def window_mode(self) -> str:
        return self.words["window_mode"] or "local"

    @property
    def msg(self) -> int:
        return int(self.values["msg"])

    @property
    def window(self) -> int:
        return int(self.values["window"])

    @property
    def mops(self) -> float | None:
        return self.get("mops")

    @property
    def gib(self) -> float | None:
        return self.get("gib")

    @property
    def mtu(self) -> int | None:
        return int(self.values["mtu"]) if self.get("mtu") else None

    def count(self, name: str) -> int | None:
        value = self.get(name)
        return None if value is None else int(value)

    @property
    def usable(self) -> bool:
        return super().usable and self.mops is not None

    @property
    def measured_interval(self) -> bool:
        """True if the interval comes from repetitions, and not from the rounding of digits."""
        return "rounded" not in self.words

    @property
    def cell(self) -> tuple[str, int, int, str, str]:
        return (self.mode, self.msg, self.window, self.op, self.window_mode)

    @property
    def qps(self) -> int | None:
        """The queue pairs that send in turn, in a row of many (--qps)."""
        return self.count("qps") if self.words["experiment"] == "qp_sweep" else None

    @property
    def senders(self) -> int | None:
        """The threads that share those queue pairs."""
        return self.count("senders") if self.words["experiment"] == "qp_sweep" else None

    @property
    def name(self) -> str:
        mode = f", {self.words['window_mode']}" if self.words["window_mode"] else ""
        many = f", queue pairs: {self.qps}, threads: {self.senders}" if self.qps else ""
        return f"{self.mode} {self.op.upper()} {self.msg} B, window {self.window}{mode}{many}"


class Source(tables.Source[Row]):
    """The rows of one table."""

    @property
    def single(self) -> tuple[Row, ...]:
        """The rows of one queue pair at each end."""
        return tuple(row for row in self.rows if row.qps is None)

    @property
    def queue_pairs(self) -> tuple[Row, ...]:
        """The rows of many queue pairs (--qps)."""
        return tuple(row for row in self.rows if row.qps is not None)


@dataclass
class Index:
    """The rows of a source by cell."""

    rows: dict[tuple[str, int, int, str, str], Row] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Index:
        return cls({row.cell: row for row in rows})

    def get(self, mode: str, msg: int, window: int, window_mode: str = "local", op: str = "send") -> Row | None:
        return self.rows.get((mode, msg, window, op, window_mode))


def read_rows(table: Table) -> tuple[Row, ...]:
    rows = rows_of(table, Row, WORDS, ("msg", "window"))
    seen: dict[tuple[object, ...], str] = {}
    made = []
    for item, row in zip(table.items, rows, strict=True):
        try:
            rounding = sound(item.rounding.get("mops", 0.0), "the last digit of mops")
            _examine(row)
            cell = (*row.cell, row.qps, row.senders)
            if cell in seen:
                raise TableError(f"the same cell as {seen[cell]}")
        except TableError as error:
            raise TableError(f"{table.path}: {item.place}: {error}") from None
        seen[cell] = item.place
        made.append(_with_interval(row, rounding))
    return tuple(made)


def _examine(row: Row) -> None:
    for name, choices, default in (("mode", MODES, ""), ("op", OPS, "send"), ("window_mode", WINDOW_MODES, "local")):
        text = row.words[name] or default
        if text not in choices:
            raise TableError(f"{name} {text!r} is not one of {', '.join(choices)}")
    if row.words["experiment"] not in EXPERIMENTS:
        raise TableError(f"experiment {row.words['experiment']!r} is not one of {', '.join(EXPERIMENTS)}")
    if row.words["experiment"] == "qp_sweep" and not (row.count("qps") and row.count("senders")):
        raise TableError("a row of qp_sweep has no qps and senders")
    low, high = row.get("mops_low"), row.get("mops_high")
    if low is not None and high is not None and low > high:
        raise TableError(f"mops_low {low} is above mops_high {high}")


def _with_interval(row: Row, rounding: float) -> Row:
    """Add the interval of gib; without one of mops both have the range of their rounding.

    Experiment.read() leaves that range to the published table alone.
    """
    if row.mops is None:
        return row
    values, words = dict(row.values), dict(row.words)
    if not row.has_interval("mops"):
        words["rounded"] = "yes"
        values |= {"mops_low": max(row.mops - rounding, 0.0), "mops_high": row.mops + rounding}
    if row.gib is not None:
        values |= {f"gib_{end}": values[f"mops_{end}"] * 1e6 * row.msg / 2**30 for end in ("low", "high")}
    return replace(row, values=values, words=words)
