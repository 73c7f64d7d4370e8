# SPDX-License-Identifier: Apache-2.0
"""The charts of RC against UD: message rate and throughput by message size, for each window, and
message rate by the number of queue pairs that send.

A colour is a transport and operation, a line style a window mode, a marker a source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from report.charts import BLUE, GOLD, GREEN, MARKERS, ORANGE, PINK, Chart, Line, gid_of, line_of, without_figures
from report.rcud.rows import WINDOW_MODES, Row, Source

COLOURS = {
    ("RC", "send"): BLUE,
    ("UD", "send"): ORANGE,
    ("UD-seg", "send"): PINK,
    ("RC", "write"): GREEN,
    ("RC", "read"): GOLD,
}


@dataclass(frozen=True)
class Quantity:
    name: str  # stem of the file
    title: str
    axis: str
    column: str


QUANTITIES = (
    Quantity("mops_vs_message_size", "Message rate", "Message rate (Mops = 10⁶ messages/s)", "mops"),
    Quantity("throughput_vs_message_size", "Throughput", "Throughput (GiB/s = 2³⁰ B/s)", "gib"),
)


def charts(sources: list[Source], published: Source | None) -> Iterator[Chart]:
    windows = sorted({row.window for source in sources for row in source.single})
    for window in windows:
        for quantity in QUANTITIES:
            yield _chart(quantity, window, sources, published)
    for msg, window in sorted({(row.msg, row.window) for source in sources for row in source.queue_pairs}):
        yield _queue_pair_chart(msg, window, sources)


def _chart(quantity: Quantity, window: int, sources: list[Source], published: Source | None) -> Chart:
    lines: list[Line] = []
    if published:
        lines += _lines(quantity, window, published, 0, "")
    for number, source in enumerate(sources):
        named = f"{source.label}: " if len(sources) > 1 else ""
        lines += [
            replace(line, behind=source.published and len(sources) > 1)
            for line in _lines(quantity, window, source, number, named)
        ]
    rows = [row for source in sources for row in source.single if row.window == window]
    return Chart(
        name=f"{quantity.name}_window_{window}",
        title=f"{quantity.title} by message size, window {window}",
        subtitle=_subtitle(sources),
        x_axis="Message size (B)",
        y_axis=quantity.axis,
        ticks={size: str(size) for size in sorted({row.msg for row in rows})},
        lines=lines,
        notes=without_figures(rows, lambda row: row.name, quantity.column),
        log_y=False,
    )


def _queue_pair_chart(msg: int, window: int, sources: list[Source]) -> Chart:
    """Return the rates of a size and window by queue pairs; a marker is a number of senders."""
    rows = [row for source in sources for row in source.queue_pairs if (row.msg, row.window) == (msg, window)]
    senders = sorted({row.senders for row in rows})
    lines: list[Line] = []
    for source in sources:
        for number, count in enumerate(senders):
            chosen = [row for row in source.queue_pairs if (row.msg, row.window, row.senders) == (msg, window, count)]
            named = f"{source.label}: " if len(sources) > 1 else ""
            threads = f", {count} sender{'s' if count > 1 else ''}" if len(senders) > 1 else ""
            lines += _lines_of(chosen, "mops", lambda row: row.qps, source, number, named, threads)
    return Chart(
        name=f"mops_vs_queue_pairs_{msg}B_window_{window}",
        title=f"Message rate by queue pairs that send, {msg} B, window {window}",
        subtitle=_subtitle(sources),
        x_axis="Queue pairs that send (RC: as many at the receiver; UD: one)",
        y_axis=QUANTITIES[0].axis,
        ticks={qps: f"{qps:,}" for qps in sorted({row.qps for row in rows})},
        lines=lines,
        notes=without_figures(rows, lambda row: row.name, "mops"),
        log_y=False,
    )


def _lines(quantity: Quantity, window: int, source: Source, number: int, named: str) -> Iterator[Line]:
    rows = [row for row in source.single if row.window == window]
    return _lines_of(rows, quantity.column, lambda row: row.msg, source, number, named)


def _lines_of(
    rows: list[Row],
    column: str,
    x: Callable[[Row], float],
    source: Source,
    number: int,
    named: str,
    more: str = "",
) -> Iterator[Line]:
    groups = list(_groups(rows))
    several_ops = len({op for _, op, _, _ in groups}) > 1
    for mode, op, window_mode, group in groups:
        label = named + mode + (f" {op.upper()}" if several_ops else "") + more
        label += ", published" if source.published else f", {window_mode} window"
        line = line_of(
            group,
            column,
            x,
            label,
            gid_of(source.label, mode, op, window_mode + more),
            COLOURS[mode, op],
            dashed=window_mode == "credit",
            marker=MARKERS[number % len(MARKERS)],
            behind=source.published and not named,
        )
        # Without repetitions only the rounding of printed digits is known, so there is no bar.
        bare = [replace(point, low=point.middle, high=point.middle) for point in line.points]
        yield line if any(row.measured_interval for row in group) else replace(line, points=bare)


def _groups(rows: Iterable[Row]) -> Iterator[tuple[str, str, str, list[Row]]]:
    rows = list(rows)
    for mode, op in COLOURS:
        for window_mode in WINDOW_MODES:
            wanted = (mode, op, window_mode)
            group = [row for row in rows if (row.mode, row.op, row.window_mode) == wanted]
            if group:
                yield mode, op, window_mode, group


def _subtitle(sources: list[Source]) -> str:
    texts: dict[str, list[str]] = {}
    for source in sources:
        mtus = ", ".join(str(mtu) for mtu in sorted({row.mtu for row in source.rows if row.mtu}))
        texts.setdefault(source.device_text + (f", MTU {mtus}" if mtus else ""), []).append(source.label)
    parts = [f"{', '.join(names)}: {text}" if len(sources) > 1 else text for text, names in texts.items()]
    if any(row.measured_interval for source in sources for row in source.rows):
        parts.append("bars: 95 % intervals of the median")
    return "; ".join(parts)
