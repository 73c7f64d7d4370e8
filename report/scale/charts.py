# SPDX-License-Identifier: Apache-2.0
"""The charts of many clients: connect time, echoes, echo latency and memory, by number of clients.

A colour is a transport, a line style a quantile. Rivals and the published curve are behind the
others. The published rows cannot be compared with each other, and only show what was claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from report.charts import BLUE, GREEN, INK, MARKERS, MUTED, ORANGE, Chart, Line, Point, gid_of, line_of, without_figures
from report.scale.rows import Row, Source

COLOURS = {"rdma": BLUE, "tcp": ORANGE}


@dataclass(frozen=True)
class Quantity:
    name: str  # stem of the file
    title: str
    axis: str
    columns: dict[str, str]  # with the labels of their lines; the second one is dashed
    published: Callable[[Row], float]
    published_label: str
    paced: bool = False  # prefers rows at an offered rate


def _per_client_kib(row: Row) -> float:
    return row.values["peak_memory_mb"] * 1024 / row.clients


QUANTITIES = (
    Quantity(
        "echoes_vs_clients",
        "Verified echoes per second",
        "Echoes per second, all clients",
        {"messages_per_second": "median"},
        lambda row: row.values["messages_per_second"],
        "messages per second, published (sleeps)",
    ),
    Quantity(
        "latency_vs_clients",
        "Latency of an echo",
        "From a message to its verified echo (ms)",
        {"latency_p50_ms": "p50", "latency_p99_ms": "p99"},
        lambda row: row.values["avg_latency_ms"],
        "average, published (a sleep)",
        paced=True,
    ),
    Quantity(
        "connect_time_vs_clients",
        "Connect time",
        "From wanting to connect to ready (ms)",
        {"connect_p50_ms": "p50", "connect_p99_ms": "p99"},
        lambda row: row.values["avg_connect_ms"],
        "average, published (a sleep)",
    ),
    Quantity(
        "memory_vs_clients",
        "Server memory per connection",
        "KiB per connection, all connected",
        {"server_kib_per_connection": "median"},
        _per_client_kib,
        "whole process by clients, published",
    ),
)


def charts(sources: list[Source], published: Source | None) -> list[Chart]:
    beside = published or next(source for source in sources if source.published)
    return [_chart(quantity, sources, beside) for quantity in QUANTITIES]


def _chart(quantity: Quantity, sources: list[Source], published: Source) -> Chart:
    behind = [Point(row.clients, *[quantity.published(row)] * 3) for row in published.rows]
    lines = [Line(quantity.published_label, "published", MUTED, behind, behind=True)]
    measured = [source for source in sources if not source.published]
    for number, source in enumerate(measured):
        named = f"{source.label}: " if len(measured) > 1 else ""
        lines += _rivals(quantity, source, named)
        for transport in sorted({row.transport for row in source.rows if not row.is_rival}):
            lines += _lines(quantity, source, transport, named, MARKERS[number % len(MARKERS)])
    counts = sorted({row.clients for source in [*sources, published] for row in source.rows})
    rows = [row for source in measured for row in source.rows]
    return Chart(
        name=quantity.name,
        title=f"{quantity.title} by number of clients",
        subtitle="; ".join(dict.fromkeys(source.device_text for source in sources))
        + "; bars: 95 % intervals of the median",
        x_axis="Clients, all connected at once",
        y_axis=quantity.axis,
        ticks={count: f"{count:,}" if _has_room(count, counts) else "" for count in counts},
        lines=lines,
        notes=without_figures(rows, lambda row: row.name, "messages_per_second"),
    )


def _lines(quantity: Quantity, source: Source, transport: str, named: str, marker: str) -> list[Line]:
    rows = source.drawn(transport, paced=quantity.paced) or source.drawn(transport, paced=not quantity.paced)
    pace = (
        f", {rows[0].rate:.0f}/s offered" if rows and rows[0].rate and quantity.name.startswith(("lat", "echo")) else ""
    )
    lines = []
    for place, (column, text) in enumerate(quantity.columns.items()):
        label, gid = f"{named}{transport} {text}{pace}", gid_of(source.label, transport, column)
        more = {"dashed": place > 0, "marker": marker}
        lines.append(line_of(rows, column, _clients, label, gid, COLOURS.get(transport, INK), **more))
    for engine in ("uring", "threads"):
        other = [
            row
            for row in source.rows
            if (row.engine, row.transport, row.shared, row.rate) == (engine, transport, 0, 0)
            and not row.words["without"]
        ]
        column = next(iter(quantity.columns))
        label, gid = f"{named}{transport}, {engine}", gid_of(source.label, transport, engine, column)
        lines.append(line_of(other, column, _clients, label, gid, GREEN, dashed=engine == "threads", marker=marker))
    return [line for line in lines if line.points or line.doubtful]


def _clients(row: Row) -> float:
    return row.clients


def _rivals(quantity: Quantity, source: Source, named: str) -> list[Line]:
    column = next(iter(quantity.columns))
    systems = dict.fromkeys(row.system for row in source.rows if row.is_rival)
    lines = []
    for system in systems:
        rows = [row for row in source.rows if row.system == system]
        label, gid = f"{named}{system}, {rows[0].transport}", gid_of(source.label, system, column)
        lines.append(line_of(rows, column, _clients, label, gid, INK, marker=MARKERS[1], behind=True))
    return [line for line in lines if line.points or line.doubtful]


def _has_room(count: int, counts: list[int]) -> bool:
    """Return False if a larger count is so close that the labels would touch."""
    return not any(count < other < 2.1 * count for other in counts)
