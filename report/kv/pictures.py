"""The pictures of the key-value store.

By size: throughput, latency, rendezvous divided by eager, and other systems beside ours. By one
parameter: the sweeps. In every picture a colour is a way in which values travel.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from report.kv.rows import AUTO, EAGER, GIGABYTES, ONE_SIDED, RATE, RENDEZVOUS, Row, Source, parameter, size_text
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

WAYS = {EAGER: BLUE, RENDEZVOUS: ORANGE, f"{RENDEZVOUS} by write": PINK, AUTO: GREEN, ONE_SIDED: GOLD}
PUBLISHED_WAYS = (EAGER, RENDEZVOUS)
RIVALS = {
    "redis, unix socket": (SKY, False),
    "redis, TCP": (SKY, True),
    "memcached, unix socket": (INK, False),
    "memcached, TCP": (INK, True),
}
PARAMETERS = {
    "depth": "Receive and send depth",
    "warmup": "Operations before the timed ones",
    "iters": "Timed operations of a repetition",
}


def draw_all(sources: list[Source], published: Source | None, folder: Path) -> list[Picture]:
    loads = list(dict.fromkeys(load for source in sources for load in source.loads()))
    charts = []
    for load in loads:
        charts.append(
            _by_size(load, GIGABYTES, "throughput", "Throughput", "GB/s of values (10⁹ bytes/s)", sources, published)
        )
        if any(row.get("p50_us") for source in sources for row in source.rows):
            charts.append(
                _by_size(
                    load, "p50_us", "latency", "Latency", "From an operation to its answer, P50 (µs)", sources, None
                )
            )
        if any(source.rivals(load) for source in sources):
            charts.append(_beside(load, sources))
    charts += [chart for op in ("SET", "GET") if (chart := _crossover(op, sources)).lines]
    charts += [chart for varied in PARAMETERS if (chart := _sensitivity(varied, sources)).lines]
    return [draw(chart, folder) for chart in charts]


def _by_size(
    load: tuple[str, int, int, str],
    column: str,
    name: str,
    title: str,
    axis: str,
    sources: list[Source],
    published: Source | None,
) -> Chart:
    lines: list[Line] = []
    if published:
        sizes = {row.size for source in sources for row in source.rows if row.load == load}
        for way in PUBLISHED_WAYS:
            rows = [row for row in published.cells(way) if row.op == load[0] and min(sizes) <= row.size <= max(sizes)]
            lines.append(line_of(rows, column, _size, f"{way}, published", f"published-{way}", WAYS[way], behind=True))
    for number, source in enumerate(sources):
        for way, colour in WAYS.items():
            label = _label(source, sources, way)
            lines.append(
                line_of(source.cells(way, load), column, _size, label, _gid(label), colour, marker=MARKERS[number])
            )
    return _chart(f"{name}_{_file(load)}", f"{title} of {_words(load)}", "Bytes of a value", axis, lines, sources)


def _beside(load: tuple[str, int, int, str], sources: list[Source]) -> Chart:
    lines: list[Line] = []
    for source in sources:
        for way in (AUTO, ONE_SIDED):
            label = _label(source, sources, f"verbena, {way}")
            lines.append(line_of(source.cells(way, load), RATE, _size, label, _gid(label), WAYS[way]))
        rivals = source.rivals(load)
        for way, (colour, dashed) in RIVALS.items():
            label = _label(source, sources, way)
            lines.append(line_of(rivals.get(way, []), RATE, _size, label, _gid(label), colour, dashed=dashed))
    title = f"{_words(load)} beside other systems"
    return _chart(f"beside_{_file(load)}", title, "Bytes of a value", "Operations per second", lines, sources)


def _crossover(op: str, sources: list[Source]) -> Chart:
    colours = (BLUE, ORANGE, GREEN, PINK, GOLD, SKY, INK)
    lines: list[Line] = []
    for source in sources:
        pairs = [pair for pair in source.pairs() if pair[0].op == op]
        for place, load in enumerate(dict.fromkeys(eager.load for eager, _ in pairs)):
            points = []
            for eager, other in (pair for pair in pairs if pair[0].load == load):
                (low, middle, high), (eager_low, eager_middle, eager_high) = other.interval(RATE), eager.interval(RATE)
                points.append((eager.size, low / eager_high, middle / eager_middle, high / eager_low))
            label = _label(source, sources, f"window {load[1]}" + (f", {load[2]} clients" if load[2] > 1 else ""))
            lines.append(Line(label, _gid(label), colours[place % len(colours)], points))
    sizes = [x for line in lines for x, _, _, _ in line.points]
    if sizes:
        lines.append(
            Line("equal", "equal", INK, [(x, 1, 1, 1) for x in (min(sizes), max(sizes))], dashed=True, marker="")
        )
    title = f"Rendezvous over eager, {op}"
    return _chart(
        f"crossover_{op.lower()}", title, "Bytes of a value", "Rate by rendezvous / rate when eager", lines, sources
    )


def _sensitivity(varied: str, sources: list[Source]) -> Chart:
    markers = {"SET": MARKERS[0], "GET": MARKERS[1]}
    lines: list[Line] = []
    for source in sources:
        for (load, way, size), rows in source.sweep(varied).items():
            label = _label(source, sources, f"{load[0]} {way} {size_text(size)}, window {load[1]}")
            colour = WAYS.get(way, INK)
            more = {"dashed": load[0] == "GET", "marker": markers[load[0]]}
            lines.append(line_of(rows, RATE, _parameter, label, _gid(label), colour, **more))
    ticks = {
        _parameter(row): f"{parameter(row):g}"
        for source in sources
        for rows in source.sweep(varied).values()
        for row in rows
    }
    title = f"Operations per second by {varied}"
    chart = _chart(f"sensitivity_{varied}", title, PARAMETERS[varied], "Operations per second", lines, sources, ticks)
    return replace(chart, log_y=False)


def _chart(
    name: str,
    title: str,
    x_axis: str,
    y_axis: str,
    lines: list[Line],
    sources: list[Source],
    ticks: dict[float, str] | None = None,
) -> Chart:
    lines = [line for line in lines if line.points]
    sizes = sorted({x for line in lines if not line.behind for x, _, _, _ in line.points})
    left_out = [
        f"{row.name}: {row.validity}, {row.reason}" for source in sources for row in source.rows if not row.usable
    ]
    shown = "; ".join(left_out[:6]) + (f"; and {len(left_out) - 6} more" if len(left_out) > 6 else "")
    return Chart(
        name=name,
        title=title,
        subtitle="; ".join(dict.fromkeys(source.device_text for source in sources))
        + "; bars: 95 % intervals of the median",
        x_axis=x_axis,
        y_axis=y_axis,
        ticks=ticks or {size: size_text(int(size)) for size in sizes},
        lines=lines,
        description=f"{title}. {in_words(lines, y_axis)}",
        marks=[],
        notes=[f"Rows that are left out: {shown}."] if left_out else [],
    )


def _size(row: Row) -> float:
    return row.size


def _parameter(row: Row) -> float:
    """Return the swept parameter; 0 becomes 0.5, so that a logarithmic axis has a place for it."""
    return max(parameter(row), 0.5)


def _label(source: Source, sources: list[Source], text: str) -> str:
    return f"{source.label}: {text}" if len(sources) > 1 else text


def _gid(label: str) -> str:
    return label.replace(" ", "-").replace(",", "").replace(":", "")


def _file(load: tuple[str, int, int, str]) -> str:
    op, window, clients, transport = load
    return (
        f"{op.lower()}_window{window}"
        + (f"_{clients}clients" if clients > 1 else "")
        + ("_tcp" if transport == "tcp" else "")
    )


def _words(load: tuple[str, int, int, str]) -> str:
    op, window, clients, transport = load
    many = f", {clients} clients" if clients > 1 else ""
    return f"{op}, window {window}{many}" + (", tcp" if transport == "tcp" else "")
