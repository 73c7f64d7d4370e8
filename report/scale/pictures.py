"""The pictures of many clients: connect time, echoes, echo latency and memory, by number of
clients.

A colour is a transport, a line style a quantile. Rivals and the published curve are behind the
others. The published rows cannot be compared with each other, and only show what was claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from report.pictures import BLUE, INK, MARKERS, MUTED, ORANGE, Chart, Line, Picture, draw, in_words, line_of
from report.scale.rows import Row, Source, published

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
        "connect_time_vs_clients",
        "Connect time",
        "From wanting to connect to ready (ms)",
        {"connect_p50_ms": "p50", "connect_p99_ms": "p99"},
        lambda row: row.values["avg_connect_ms"],
        "average, published (a sleep)",
    ),
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
        "memory_vs_clients",
        "Server memory per connection",
        "KiB per connection, all connected",
        {"server_kib_per_connection": "median"},
        _per_client_kib,
        "whole process by clients, published",
    ),
)


def draw_all(sources: list[Source], _: Source | None, folder: Path) -> list[Picture]:
    return [draw(_chart(quantity, sources), folder) for quantity in QUANTITIES]


def _chart(quantity: Quantity, sources: list[Source]) -> Chart:
    behind = [(row.clients, *[quantity.published(row)] * 3) for row in published().rows]
    lines = [Line(quantity.published_label, "published", MUTED, sorted(behind), behind=True)]
    for number, source in enumerate(source for source in sources if not source.published):
        for transport in source.transports:
            lines += _lines(
                quantity,
                source,
                transport,
                f"{source.label}: " if len(sources) > 1 else "",
                MARKERS[number % len(MARKERS)],
            )
    for source in sources:
        lines += _rivals(quantity, source)
    counts = sorted({row.clients for source in [*sources, published()] for row in source.rows})
    title = f"{quantity.title} by number of clients"
    return Chart(
        name=quantity.name,
        title=title,
        subtitle="; ".join(dict.fromkeys(source.device_text for source in sources))
        + "; bars: 95 % intervals of the median",
        x_axis="Clients, all connected at once",
        y_axis=quantity.axis,
        ticks={count: f"{count:,}" if _has_room(count, counts) else "" for count in counts},
        lines=lines,
        description=f"{title}. {in_words(lines, 'clients')}",
        marks=[],
        notes=[],
    )


def _lines(quantity: Quantity, source: Source, transport: str, named: str, marker: str) -> list[Line]:
    rows = source.cells(transport, paced=quantity.paced) or source.cells(transport, paced=not quantity.paced)
    pace = (
        f", {rows[0].rate:.0f}/s offered" if rows and rows[0].rate and quantity.name.startswith(("lat", "echo")) else ""
    )
    lines = []
    for place, (column, text) in enumerate(quantity.columns.items()):
        label, gid = f"{named}{transport} {text}{pace}", f"{source.label}-{transport}-{column}"
        colour = COLOURS.get(transport, INK)
        lines.append(
            line_of(rows, column, lambda row: row.clients, label, gid, colour, dashed=place > 0, marker=marker)
        )
    return [line for line in lines if line.points]


def _rivals(quantity: Quantity, source: Source) -> list[Line]:
    column = next(iter(quantity.columns))
    by_system: dict[str, list[tuple[float, float, float, float]]] = {}
    for row in source.rivals():
        if row.get(column) is not None:
            by_system.setdefault(row.system, []).append((row.clients, *row.interval(column)))
    return [
        Line(
            f"{system}, {source.label}",
            f"{source.label}-{system}-{column}",
            INK,
            points,
            marker=MARKERS[1],
            behind=True,
        )
        for system, points in by_system.items()
    ]


def _has_room(count: int, counts: list[int]) -> bool:
    """Return False if a larger count is so close that the labels would touch."""
    return not any(count < other < 1.6 * count for other in counts)
