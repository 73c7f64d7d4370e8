# SPDX-License-Identifier: Apache-2.0
"""The charts of the key-value store.

By size: throughput, latency, and rendezvous divided by eager. By one parameter: the sweeps. A
colour is a way in which values travel; TCP is dashed; other systems and published figures are
faint.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from report.charts import (
    BLUE,
    COLOURS,
    GOLD,
    GREEN,
    INK,
    MARKERS,
    ORANGE,
    PINK,
    SKY,
    Chart,
    Line,
    Point,
    gid_of,
    line_of,
    without_figures,
)
from report.compare import ratio
from report.kv.rows import AUTO, EAGER, ONE_SIDED, RATE, RENDEZVOUS, Row, Source, parameter, size_text

WAYS = {EAGER: BLUE, RENDEZVOUS: ORANGE, f"{RENDEZVOUS} by write": PINK, AUTO: GREEN, ONE_SIDED: GOLD}
TRANSPORTS = ("rdma", "tcp")
PARAMETERS = {
    "depth": "Receive and send depth",
    "warmup": "Operations before the timed ones",
    "iters": "Timed operations of a repetition",
}
# Stem of the file, title, axis, column.
QUANTITIES = (
    ("throughput", "Throughput", "GB/s of values (10⁹ bytes/s)", "gigabytes_per_second"),
    ("latency", "Latency, P50", "From an operation to its answer, P50 (µs)", "p50_us"),
)

Work = tuple[str, int, int]  # the operation, its window, and its clients


def charts(sources: list[Source], published: Source | None) -> Iterator[Chart]:
    works = dict.fromkeys(load[:3] for source in sources for load in source.loads())
    made = chain(
        (_by_size(work, quantity, sources, published) for work in works for quantity in QUANTITIES),
        (_crossover(op, sources) for op in ("SET", "GET")),
        (_sensitivity(varied, sources) for varied in PARAMETERS),
    )
    return (chart for chart in made if any(not line.behind or len(sources) == 1 for line in chart.lines))


def _by_size(work: Work, quantity: tuple[str, str, str, str], sources: list[Source], published: Source | None) -> Chart:
    name, title, axis, column = quantity
    rows = [row for source in sources for row in source.rows if row.load[:3] == work and not row.varied]
    sizes = {row.size for row in rows}
    lines: list[Line] = []
    if published and sizes:
        for way in (EAGER, RENDEZVOUS):
            theirs = [row for row in published.drawn(way) if row.op == work[0] and min(sizes) <= row.size <= max(sizes)]
            label, gid = f"{way}, published", gid_of("published", way)
            lines.append(line_of(theirs, column, _size, label, gid, WAYS[way], behind=True))
    for number, source in enumerate(sources):
        marker = MARKERS[number % len(MARKERS)]
        for place, (way, theirs) in enumerate(source.rivals((*work, "")).items()):
            label = _label(source, sources, way)
            colour, dashed = (SKY, INK)[place // 2 % 2], place % 2 > 0
            lines.append(line_of(theirs, column, _size, label, gid_of(label), colour, dashed=dashed, behind=True))
        for way, colour in WAYS.items():
            for transport in TRANSPORTS:
                label = _label(source, sources, way + (", tcp" if transport == "tcp" else ""))
                more = {"dashed": transport == "tcp", "marker": marker}
                more["behind"] = source.published and len(sources) > 1
                own = source.drawn(way, (*work, transport))
                lines.append(line_of(own, column, _size, label, gid_of(label), colour, **more))
    op, window, clients = work
    many = f", {clients} clients" if clients > 1 else ""
    file = f"{op.lower()}_window{window}" + (f"_{clients}clients" if clients > 1 else "")
    return _chart(f"{name}_{file}", f"{title} of {op}, window {window}{many}", axis, lines, sources, rows, column)


def _crossover(op: str, sources: list[Source]) -> Chart:
    lines: list[Line] = []
    for source in sources:
        pairs = [pair for pair in source.pairs() if pair[0].op == op]
        for place, load in enumerate(sorted({eager.load for eager, _ in pairs})):
            points = [Point(eager.size, *ratio(other, eager, RATE)) for eager, other in pairs if eager.load == load]
            label = f"window {load[1]}" + (f", {load[2]} clients" if load[2] > 1 else "")
            label = _label(source, sources, label + (", tcp" if load[3] == "tcp" else ""))
            lines.append(Line(label, gid_of(label), COLOURS[place % len(COLOURS)], points))
    sizes = [point.x for line in lines for point in line.points]
    if sizes:
        ends = [Point(x, 1, 1, 1) for x in (min(sizes), max(sizes))]
        lines.append(Line("equal", "equal", INK, ends, dashed=True, marker=""))
    title, axis = f"Rendezvous over eager, {op}", "Rate by rendezvous / rate when eager"
    return _chart(f"crossover_{op.lower()}", title, axis, lines, sources, [], RATE)


def _sensitivity(varied: str, sources: list[Source]) -> Chart:
    markers = {"SET": MARKERS[0], "GET": MARKERS[1]}
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for source in sources:
        for row in sorted((row for row in source.rows if row.varied == varied), key=parameter):
            label = _label(source, sources, f"{row.op} {row.way} {size_text(row.size)}, window {row.window}")
            groups.setdefault((label, row.op, WAYS.get(row.way, INK)), []).append(row)
    lines = [
        line_of(rows, RATE, _parameter, label, gid_of(label), colour, dashed=op == "GET", marker=markers[op])
        for (label, op, colour), rows in groups.items()
    ]
    ticks = {_parameter(row): f"{parameter(row):g}" for rows in groups.values() for row in rows}
    title = f"Operations per second by {varied}"
    return Chart(
        name=f"sensitivity_{varied}",
        title=title,
        subtitle=_subtitle(sources),
        x_axis=PARAMETERS[varied],
        y_axis="Operations per second",
        ticks=ticks,
        lines=lines,
        notes=[],
        log_y=False,
    )


def _chart(
    name: str, title: str, axis: str, lines: list[Line], sources: list[Source], rows: list[Row], column: str
) -> Chart:
    lines = [line for line in lines if line.points or line.doubtful]
    sizes = sorted({point.x for line in lines if not line.behind for point in [*line.points, *line.doubtful]})
    return Chart(
        name=name,
        title=title,
        subtitle=_subtitle(sources),
        x_axis="Bytes of a value",
        y_axis=axis,
        ticks={size: size_text(int(size)) for size in sizes},
        lines=lines,
        notes=without_figures(rows, lambda row: row.name, column),
    )


def _subtitle(sources: list[Source]) -> str:
    devices = "; ".join(dict.fromkeys(source.device_text for source in sources))
    return f"{devices}; bars: 95 % intervals of the median"


def _size(row: Row) -> float:
    return row.size


def _parameter(row: Row) -> float:
    """Return the swept parameter; 0 becomes 0.5, so that a logarithmic axis has a place for it."""
    return max(parameter(row), 0.5)


def _label(source: Source, sources: list[Source], text: str) -> str:
    return f"{source.label}: {text}" if len(sources) > 1 else text
