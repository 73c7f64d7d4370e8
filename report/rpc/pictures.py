"""The pictures of calls: rate, throughput and latency, by size and by requests in flight.

Each transport and mode has pictures of its own. A colour is the other parameter of a cell: requests
in flight where the axis has sizes, and sizes where it has requests in flight. Rows of another
system have a picture of their own, beside ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from report.pictures import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    MARKERS,
    ORANGE,
    PINK,
    SKY,
    Chart,
    Line,
    Picture,
    draw,
    in_words,
    line_of,
)
from report.rpc.rows import Row, Source

COLOURS = (BLUE, ORANGE, GREEN, PINK, GOLD, SKY, INK)


@dataclass(frozen=True)
class Quantity:
    name: str  # stem of the file
    title: str
    axis: str
    columns: tuple[str, ...]  # the second one is dashed
    labels: tuple[str, ...]


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
    Quantity("qps", "Requests per second", "Requests per second", ("qps",), ("",)),
    Quantity("throughput", "Throughput", "Gb/s of requests (10⁹ bits/s)", ("gigabits_per_second",), ("",)),
    Quantity(
        "latency", "Latency", "From a request to its checked answer (µs)", ("p99_us", "p90_us"), (", P99", ", P90")
    ),
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


def draw_all(sources: list[Source], published: Source | None, folder: Path) -> list[Picture]:
    kinds = sorted(
        {
            (row.mode != "sink", row.transport, row.mode)
            for source in sources
            for row in source.rows
            if not row.apart and row.is_known
        }
    )
    charts = []
    for _, transport, mode in kinds:
        behind = published if (transport, mode) == ("rdma", "sink") else None
        charts += [_chart(quantity, axis, transport, mode, sources, behind) for axis in AXES for quantity in QUANTITIES]
    charts += [
        _rivals_chart(quantity, sources)
        for quantity in QUANTITIES
        if any(row.rival for source in sources for row in source.rows)
    ]
    return [draw(chart, folder) for chart in charts]


def _chart(
    quantity: Quantity, axis: Axis, transport: str, mode: str, sources: list[Source], published: Source | None
) -> Chart:
    rows = [row for source in sources for row in source.cells(transport, mode)]
    keys = sorted({axis.line(row) for row in rows})
    colours = {label: COLOURS[place % len(COLOURS)] for place, (_, label) in enumerate(keys)}
    lines: list[Line] = []
    # Published lines first, so that ours are drawn above them; only cells that were measured.
    for number, source in enumerate([*([published] if published else []), *sources], start=-1 if published else 0):
        behind = source is published
        named = f"{source.label}: " if len(sources) > 1 and not behind else ""
        for label, colour in colours.items():
            of_line = [row for row in source.cells(transport, mode) if axis.line(row)[1] == label]
            for place, column in enumerate(quantity.columns[: 1 if behind else None]):
                text = f"{named}{label}{quantity.labels[place]}" + (", published" if behind else "")
                gid = f"{source.label}-{label}-{column}".replace(" ", "-")
                marker = MARKERS[number % len(MARKERS)]
                lines.append(
                    line_of(of_line, column, axis.x, text, gid, colour, dashed=place > 0, marker=marker, behind=behind)
                )
    lines = [line for line in lines if line.points]
    left_out = [
        f"{row.name}: {row.validity}, {row.reason}"
        for source in sources
        for row in source.rows
        if not row.usable and not row.apart
    ]
    left_out = [text for text in left_out if transport in text]
    title = f"{quantity.title} by {axis.title}, {transport}" + (", everything echoed" if mode == "echo" else "")
    return Chart(
        name=f"{quantity.name}_vs_{axis.name}_{transport}_{mode}",
        title=title,
        subtitle=_subtitle(sources, transport, quantity),
        x_axis=axis.axis,
        y_axis=quantity.axis,
        ticks={axis.x(row): axis.tick(row) for row in rows},
        lines=lines,
        description=f"{title}. {in_words(lines, quantity.axis)}",
        marks=[],
        notes=[f"Left out: {'; '.join(left_out)}."] if left_out else [],
    )


def _rivals_chart(quantity: Quantity, sources: list[Source]) -> Chart:
    """Draw ours and other systems over TCP, by requests in flight."""
    lines: list[Line] = []
    ticks: dict[float, str] = {}
    for source in sources:
        cells = sorted({row.concurrency for row in source.rows if row.rival and row.usable})
        for place, concurrency in enumerate(cells):
            for number, rival in enumerate(sorted({row.rival for row in source.rows if row.usable})):
                rows = [
                    row
                    for row in source.rows
                    if (row.rival, row.concurrency, row.usable, row.transport, row.ablation)
                    == (rival, concurrency, True, "tcp", "")
                ]
                ticks |= {row.size: _size(row) for row in rows}
                label = f"{rival or 'verbena'}, {concurrency} in flight{quantity.labels[0]}"
                gid = f"{source.label}-{rival or 'verbena'}-{concurrency}"
                column = quantity.columns[0]
                colour, marker = COLOURS[place % len(COLOURS)], MARKERS[number % len(MARKERS)]
                lines.append(
                    line_of(rows, column, lambda r: r.size, label, gid, colour, dashed=bool(rival), marker=marker)
                )
    title = f"{quantity.title} beside other systems, tcp"
    return Chart(
        name=f"{quantity.name}_beside_others",
        title=title,
        subtitle=_subtitle(sources, "tcp", quantity),
        x_axis="Size of a request",
        y_axis=quantity.axis,
        ticks=ticks,
        lines=[line for line in lines if line.points],
        description=f"{title}. {in_words(lines, quantity.axis)}",
        marks=[],
        notes=[],
    )


def _subtitle(sources: list[Source], transport: str, quantity: Quantity) -> str:
    devices = (
        ["both ends on one host"] if transport == "tcp" else dict.fromkeys(source.device_text for source in sources)
    )
    return "; ".join([*devices, *(["bars: 95 % intervals of the median"] if quantity.name == "qps" else [])])
