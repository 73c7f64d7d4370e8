# SPDX-License-Identifier: Apache-2.0
"""The charts of calls: rate, throughput and latency, by size and by requests in flight.

A colour is the other parameter of a cell: requests in flight where the axis has sizes, and sizes
where it has requests in flight. TCP is dashed. Other systems and published figures are faint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from report.charts import COLOURS, MARKERS, Chart, Line, gid_of, line_of, without_figures
from report.rpc.rows import Row, Source

TRANSPORTS = ("rdma", "tcp")


@dataclass(frozen=True)
class Quantity:
    name: str  # stem of the file
    title: str
    axis: str
    column: str


@dataclass(frozen=True)
class Axis:
    name: str  # stem of the file
    title: str
    axis: str
    x: Callable[[Row], float]
    tick: Callable[[Row], str]
    line: Callable[[Row], tuple[float, str]]  # sort key and label of a row's line


def _size(row: Row) -> str:
    return row.words["request_size"]


QUANTITIES = (
    Quantity("qps", "Requests per second", "Requests per second", "qps"),
    Quantity("throughput", "Throughput", "Gb/s of requests (10⁹ bits/s)", "gigabits_per_second"),
    Quantity("latency", "Latency, P99", "From a request to its checked answer, P99 (µs)", "p99_us"),
)
AXES = (
    Axis(
        "size",
        "size",
        "Size of a request",
        lambda r: r.size,
        _size,
        lambda r: (r.concurrency, f"{r.concurrency} in flight"),
    ),
    Axis(
        "concurrency",
        "requests in flight",
        "Requests in flight",
        lambda r: r.concurrency,
        lambda r: str(r.concurrency),
        lambda r: (r.size, _size(r)),
    ),
)


def charts(sources: list[Source], published: Source | None) -> list[Chart]:
    modes = {row.mode for source in sources for row in source.rows if row.is_known and not row.apart}
    return [
        _chart(quantity, axis, mode, sources, published if mode == "sink" else None)
        for mode in sorted(modes, reverse=True)
        for axis in AXES
        for quantity in QUANTITIES
    ]


def _chart(quantity: Quantity, axis: Axis, mode: str, sources: list[Source], published: Source | None) -> Chart:
    rows = [row for source in sources for transport in TRANSPORTS for row in source.drawn(transport, mode)]
    keys = [label for _, label in sorted({axis.line(row) for row in rows})]
    lines: list[Line] = []
    # Published lines first, so that ours are drawn above them; only cells that were measured.
    if published:
        lines += _lines(quantity, axis, published.drawn("rdma", mode), keys, published, "", True)
    for number, source in enumerate(sources):
        named = f"{source.label}: " if len(sources) > 1 else ""
        rivals = [row for row in source.rows if row.rival and row.mode == mode and row.is_known]
        lines += _lines(quantity, axis, rivals, keys, source, named, True)
        for transport in TRANSPORTS:
            behind = source.published and len(sources) > 1
            lines += _lines(quantity, axis, source.drawn(transport, mode), keys, source, named, behind, number)
    title = f"{quantity.title} by {axis.title}" + (", everything echoed" if mode == "echo" else "")
    return Chart(
        name=f"{quantity.name}_vs_{axis.name}_{mode}",
        title=title,
        subtitle=_subtitle(sources),
        x_axis=axis.axis,
        y_axis=quantity.axis,
        ticks={axis.x(row): axis.tick(row) for row in rows},
        lines=lines,
        notes=without_figures(rows, lambda row: row.name, quantity.column),
    )


def _lines(
    quantity: Quantity,
    axis: Axis,
    rows: list[Row],
    keys: list[str],
    source: Source,
    named: str,
    behind: bool,
    number: int = 0,
) -> list[Line]:
    """Return a line for each system, transport and other parameter of these rows."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if (label := axis.line(row)[1]) in keys:
            groups.setdefault((row.rival, row.transport, label), []).append(row)
    lines = []
    for (rival, transport, label), members in groups.items():
        text = f"{named}{rival + ', ' if rival else ''}{transport}, {label}"
        text += ", published" if source.published and not named else ""
        colour = COLOURS[keys.index(label) % len(COLOURS)]
        gid = gid_of(source.label, rival or "verbena", transport, label)
        more = {"dashed": transport == "tcp", "marker": MARKERS[number % len(MARKERS)], "behind": behind}
        lines.append(line_of(members, quantity.column, axis.x, text, gid, colour, **more))
    return [line for line in lines if line.points or line.doubtful]


def _subtitle(sources: list[Source]) -> str:
    devices = dict.fromkeys(source.device_text for source in sources)
    return "; ".join([*devices, "bars: 95 % intervals of the median"])
