"""The pictures of RC against UD: message rate and throughput by message size, for each window.

A colour is a transport and operation, a line style a window mode, a marker a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from report.pictures import BLUE, GOLD, GREEN, MARKERS, ORANGE, PINK, Chart, Line, Mark, Picture, draw, in_words
from report.rcud.rows import Row, Source

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
    unit: str

    def of(self, row: Row) -> tuple[float, float, float]:
        """Return low, value and high."""
        if self.name.startswith("mops"):
            return row.low, row.mops or 0.0, row.high
        return row.gib_of(row.low), row.gib or 0.0, row.gib_of(row.high)


QUANTITIES = (
    Quantity("mops_vs_message_size", "Message rate", "Message rate (Mops = 10⁶ messages/s)", "Mops"),
    Quantity("throughput_vs_message_size", "Throughput", "Throughput (GiB/s = 2³⁰ B/s)", "GiB/s"),
)


def draw_all(sources: list[Source], published: Source | None, folder: Path) -> list[Picture]:
    windows = sorted({row.window for source in sources for row in source.rows})
    return [draw(_chart(quantity, window, sources, published), folder) for window in windows for quantity in QUANTITIES]


def _chart(quantity: Quantity, window: int, sources: list[Source], published: Source | None) -> Chart:
    series = _Series(quantity, window)
    if published:
        series.add(published, 0, 1, behind=True, named=False)
    for number, source in enumerate(sources):
        series.add(source, number, len(sources), behind=False, named=len(sources) > 1)
    sizes = sorted({row.msg for source in sources for row in source.rows if row.window == window})
    title = f"{quantity.title} by message size, window {window}"
    return Chart(
        name=f"{quantity.name}_window_{window}",
        title=title,
        subtitle=_subtitle(sources),
        x_axis="Message size (B)",
        y_axis=quantity.axis,
        ticks={size: str(size) for size in sizes},
        lines=series.lines,
        description=f"{title}. {in_words(series.lines, quantity.unit)}",
        marks=series.marks,
        notes=series.notes,
        log_y=False,
    )


class _Series:
    """Collects the lines and marks of the sources, and notes about rows that are left out."""

    def __init__(self, quantity: Quantity, window: int) -> None:
        self.quantity, self.window = quantity, window
        self.lines: list[Line] = []
        self.marks: list[Mark] = []
        self.notes: list[str] = []

    def add(self, source: Source, number: int, of: int, behind: bool, named: bool) -> None:
        groups = list(_groups(source, self.window))
        several_ops = len({op for (_, op, _), _ in groups}) > 1
        left_out: dict[str, list[str]] = {}
        for place, ((mode, op, window_mode), rows) in enumerate(groups):
            # Shift each source by a few hundredths of an octave, so that bars do not hide each
            # other.
            shift = 0.0 if behind else 0.05 * (place + number * len(groups) - (of * len(groups) - 1) / 2)
            factor = 2 ** max(-0.3, min(0.3, shift))
            label = (
                mode
                + (f" {op.upper()}" if several_ops else "")
                + (f", {window_mode} window" if not source.published else "")
            )
            label = (
                f"{source.label}: {label}"
                if named and not behind
                else f"{label}, published"
                if source.published
                else label
            )
            good = [row for row in rows if row.usable]
            # Without an interval only the rounding of printed digits is known, so there is no bar.
            points = [self.quantity.of(row) for row in good]
            if not any(row.has_interval for row in good):
                points = [(middle, middle, middle) for _, middle, _ in points]
            self.lines.append(
                Line(
                    label,
                    f"{source.label}-{mode}-{op}-{window_mode}",
                    COLOURS[mode, op],
                    [(row.msg * factor, *point) for row, point in zip(good, points, strict=True)],
                    dashed=window_mode == "credit",
                    marker=MARKERS[number % len(MARKERS)],
                    behind=behind,
                )
            )
            for row in rows:
                if row.mops is None:
                    left_out.setdefault(f"no figure, {row.reason or row.validity}", []).append(f"{label} {row.msg} B")
                elif not row.usable:
                    self.marks.append(Mark(row.validity, row.msg * factor, self.quantity.of(row)[1], COLOURS[mode, op]))
                    left_out.setdefault(f"{row.validity}, {row.reason or 'no reason given'}", []).append(
                        f"{label} {row.msg} B"
                    )
        for reason, names in left_out.items():
            self.notes.append(
                f"{'Left out' if reason.startswith('no figure') else 'Not joined'}: {'; '.join(names)}: {reason}."
            )


def _groups(source: Source, window: int) -> Iterator[tuple[tuple[str, str, str], list[Row]]]:
    for mode, op in COLOURS:
        for window_mode in ("local", "credit"):
            rows = [
                row
                for row in source.rows
                if (row.mode, row.op, row.window_mode, row.window) == (mode, op, window_mode, window)
            ]
            if rows:
                yield (mode, op, window_mode), sorted(rows, key=lambda row: row.msg)


def _subtitle(sources: list[Source]) -> str:
    texts: dict[str, list[str]] = {}
    for source in sources:
        mtus = ", ".join(str(mtu) for mtu in sorted({row.mtu for row in source.rows if row.mtu}))
        texts.setdefault(source.device_text + (f", MTU {mtus}" if mtus else ""), []).append(source.label)
    parts = [f"{', '.join(names)}: {text}" if len(sources) > 1 else text for text, names in texts.items()]
    if any(row.has_interval for source in sources for row in source.rows):
        parts.append("bars: 95 % intervals of the median")
    return "; ".join(parts)
