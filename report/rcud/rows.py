"""Rows of RC against UD: of `verbena bench rcud`, or a CSV with the seven published columns.

A `Row` is one cell of the experiment. A value that the file does not have is None; nothing is
guessed. mops is 10^6 messages per second, gib is GiB/s (2^30 bytes); both are counted by the
receiver if the row has `delivered`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache

from report import judge, tables
from report.tables import PUBLISHED, Table, TableError, read_table

KEYS = ("experiment", "mode", "msg", "window", "iters", "mops", "gib")
EXPERIMENTS = ("msg_sweep", "qp_sweep")
MODES = ("RC", "UD", "UD-seg")
OPS = ("send", "write", "read")
WINDOW_MODES = ("local", "credit")


@dataclass(frozen=True)
class Row:
    mode: str
    msg: int
    window: int
    iters: int
    mops: float | None
    gib: float | None
    op: str = "send"
    window_mode: str = "local"
    device: str | None = None
    mtu: int | None = None
    posted: int | None = None
    completed: int | None = None
    delivered: int | None = None
    lost: int | None = None
    duplicated: int | None = None
    reordered: int | None = None
    spread: float | None = None
    mops_low: float | None = None
    mops_high: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    p9999_us: float | None = None
    rtt_before_ns: float | None = None
    rtt_after_ns: float | None = None
    rtt_class: str | None = None
    validity: str = "valid"
    reason: str = ""
    qps: int | None = None  # in a row of many queue pairs: those that send in turn
    senders: int | None = None  # and the threads that share them
    repetitions: tuple[float, ...] = ()
    has_interval: bool = False  # low and high come from repetitions, not from rounding

    @property
    def usable(self) -> bool:
        """True if the row may support or contradict a claim."""
        return self.validity == "valid" and self.mops is not None

    @property
    def low(self) -> float:
        return self.mops_low if self.mops_low is not None else self.mops or 0.0

    @property
    def high(self) -> float:
        return self.mops_high if self.mops_high is not None else self.mops or 0.0

    def gib_of(self, mops: float) -> float:
        return mops * 1e6 * self.msg / 2**30

    @property
    def cell(self) -> tuple[str, int, int, str, str]:
        return (self.mode, self.msg, self.window, self.op, self.window_mode)


@dataclass(frozen=True)
class Source(tables.Source[Row]):
    """`rows` are those of one queue pair; `queue_pairs` those of many (--qps)."""

    queue_pairs: tuple[Row, ...] = ()


@dataclass
class Index:
    """The rows of a source by cell."""

    rows: dict[tuple[str, int, int, str, str], Row] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Index:
        return cls({row.cell: row for row in rows})

    def get(self, mode: str, msg: int, window: int, window_mode: str = "local", op: str = "send") -> Row | None:
        return self.rows.get((mode, msg, window, op, window_mode))


def read(table: Table, label: str | None = None) -> Source:
    """Read a table; a TableError names the file and the place in one line."""
    try:
        rows = _rows(table)
    except TableError as error:
        raise TableError(f"{table.path}: {error}") from None
    one = tuple(row for row in rows if row.qps is None)
    many = tuple(row for row in rows if row.qps is not None)
    return Source(label or table.path.stem, table.environment, one, published=one == published().rows, queue_pairs=many)


@cache
def published() -> Source:
    """Return the published table, judged as any table is."""
    table = read_table(PUBLISHED / "rc_vs_ud.csv")
    return Source("published", {}, tuple(_rows(table)), published=True)


def _rows(table: Table) -> list[Row]:
    missing = [name for name in KEYS if name not in table.header]
    if missing:
        raise TableError(f"not a table of this experiment: no column {', '.join(missing)}")
    rows, seen = [], {}
    for place, item in table.items:
        try:
            row = _row(item)
        except TableError as error:
            raise TableError(f"{place}: {error}") from None
        cell = (*row.cell, row.qps, row.senders)
        if cell in seen:
            raise TableError(f"{place}: the same cell as {seen[cell]}")
        seen[cell] = place
        rows.append(row)
    return [replace(row, **verdict._asdict()) for row, verdict in zip(rows, judge.verdicts(table.path), strict=True)]


def _row(item: dict[str, str]) -> Row:
    if item.get("experiment") not in EXPERIMENTS:
        raise TableError(f"experiment {item.get('experiment')!r} is not one of {', '.join(EXPERIMENTS)}")
    many = item["experiment"] == "qp_sweep"
    mops, gib = _number(item, "mops"), _number(item, "gib")
    low, high = _number(item, "mops_low"), _number(item, "mops_high")
    measured = low is not None and high is not None
    if measured and not low <= high:
        raise TableError(f"mops_low {low} is above mops_high {high}")
    if not measured and mops is not None:
        half = 0.5 * 10.0 ** -_decimals(item["mops"])
        low, high = max(mops - half, 0.0), mops + half
    return Row(
        mode=_choice(item, "mode", MODES, None),
        msg=_count(item, "msg", required=True),
        window=_count(item, "window", required=True),
        iters=_count(item, "iters") or 0,
        mops=mops,
        gib=gib,
        op=_choice(item, "op", OPS, "send"),
        window_mode=_choice(item, "window_mode", WINDOW_MODES, "local"),
        device=item.get("device") or None,
        **{
            name: _count(item, name)
            for name in ("mtu", "posted", "completed", "delivered", "lost", "duplicated", "reordered")
        },
        **{
            name: _number(item, name)
            for name in ("spread", "p50_us", "p99_us", "p999_us", "p9999_us", "rtt_before_ns", "rtt_after_ns")
        },
        mops_low=low,
        mops_high=high,
        qps=_count(item, "qps", required=True) if many else None,
        senders=_count(item, "senders", required=True) if many else None,
        rtt_class=item.get("rtt_class") or None,
        repetitions=_repetitions(item.get("repetitions", "")),
        has_interval=measured,
    )


def _repetitions(text: str) -> tuple[float, ...]:
    """Keep only the rates of repetitions that have further counts; the judge reads those."""
    try:
        rates = [item.get("mops") for item in json.loads(text or "[]") if isinstance(item, dict)]
    except json.JSONDecodeError:
        raise TableError("repetitions are not a JSON list") from None
    return tuple(tables.number(str(rate), "repetitions") for rate in rates if rate is not None)


def _number(item: dict[str, str], name: str) -> float | None:
    text = (item.get(name) or "").strip()
    return tables.number(text, name) if text else None


def _count(item: dict[str, str], name: str, required: bool = False) -> int | None:
    value = _number(item, name)
    if value is None and required:
        raise TableError(f"no {name}")
    if value is not None and (value != int(value) or (required and value == 0)):
        raise TableError(f"{name} {item[name]!r} is not a {'positive ' if required else ''}whole number")
    return None if value is None else int(value)


def _choice(item: dict[str, str], name: str, choices: tuple[str, ...], default: str | None) -> str:
    text = (item.get(name) or "").strip() or default
    if text not in choices:
        raise TableError(f"{name} {text!r} is not one of {', '.join(choices)}")
    return text


def _decimals(text: str) -> int:
    mantissa, _, exponent = text.strip().lower().partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)
