"""The pictures: message rate and throughput by message size, one of each for a window. PNG and SVG, from the same rows.

Colour is the transport and operation, line style the window mode, marker the source. Lines join valid rows only; a suspect or
invalid row is a lone mark, and what is left out is said under the picture. Published figures lie faint behind.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from report.tables import Row, Source

# Okabe and Ito's palette: distinct for colour-blind readers too.
COLOURS = {
    ("RC", "send"): "#0072b2",
    ("UD", "send"): "#d55e00",
    ("UD-seg", "send"): "#cc79a7",
    ("RC", "write"): "#009e73",
    ("RC", "read"): "#b8860b",
}
INK, MUTED, GRID, PAPER = "#1f2933", "#5b6770", "#dfe3e8", "#ffffff"
MARKERS = "os^Dvph"


@dataclass(frozen=True)
class Quantity:
    name: str  # of the file
    title: str
    axis: str

    def of(self, row: Row) -> tuple[float, float, float]:
        """Value, low and high."""
        if self.name.startswith("mops"):
            return row.mops or 0.0, row.low, row.high
        return row.gib or 0.0, row.gib_of(row.low), row.gib_of(row.high)


QUANTITIES = (
    Quantity("mops_vs_message_size", "Message rate", "Message rate (Mops = 10⁶ messages/s)"),
    Quantity("throughput_vs_message_size", "Throughput", "Throughput (GiB/s = 2³⁰ B/s)"),
)


@dataclass(frozen=True)
class Picture:
    name: str
    png: Path
    svg: Path
    description: str  # for those who cannot see it
    notes: tuple[str, ...]


def draw_all(sources: list[Source], published: Source | None, folder: Path) -> list[Picture]:
    folder.mkdir(parents=True, exist_ok=True)
    windows = sorted({row.window for source in sources for row in source.rows})
    return [_draw(quantity, window, sources, published, folder) for window in windows for quantity in QUANTITIES]


def _draw(quantity: Quantity, window: int, sources: list[Source], published: Source | None, folder: Path) -> Picture:
    name = f"{quantity.name}_window_{window}"
    style = {"font.family": "DejaVu Sans", "font.size": 11, "svg.fonttype": "path", "svg.hashsalt": name, "text.color": INK}
    with pyplot.rc_context({**style, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED}):
        figure, axes = pyplot.subplots(facecolor=PAPER)
        notes: list[str] = []
        marks: list[tuple[str, float, float, Row]] = []  # lone marks: validity, size, value
        top = 0.0
        if published:
            top = max(top, _series(axes, quantity, window, published, 0, 1, True, notes, marks, len(sources) > 0))
        for number, source in enumerate(sources):
            top = max(top, _series(axes, quantity, window, source, number, len(sources), False, notes, marks, len(sources) > 1))
        sizes = sorted({row.msg for source in sources for row in source.rows if row.window == window})
        _axes(axes, quantity, sizes, top or 1.0)
        _lone_marks(axes, marks, (top or 1.0) * 1.08, notes)
        legend_lines = _legend(axes, marks)
        text = "\n".join(line for note in notes for line in textwrap.wrap(note, 140))
        _lay_out(figure, legend_lines, text, f"{quantity.title} by message size, window {window}", _subtitle(sources))
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png, dpi=200, facecolor=PAPER, metadata={"Software": None})
        figure.savefig(svg, facecolor=PAPER, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return Picture(name, png, svg, _description(quantity, window, sources), tuple(notes))


def _groups(source: Source, window: int) -> Iterator[tuple[tuple[str, str, str], list[Row]]]:
    for mode, op in COLOURS:
        for window_mode in ("local", "credit"):
            rows = [row for row in source.rows if (row.mode, row.op, row.window_mode, row.window) == (mode, op, window_mode, window)]
            if rows:
                yield (mode, op, window_mode), sorted(rows, key=lambda row: row.msg)


def _series(
    axes: Axes,
    quantity: Quantity,
    window: int,
    source: Source,
    number: int,
    of: int,
    behind: bool,
    notes: list[str],
    marks: list[tuple[str, float, float, Row]],
    named: bool,
) -> float:
    """Draws the lines of one source; returns its greatest value."""
    groups = list(_groups(source, window))
    several_ops = len({op for (_, op, _), _ in groups}) > 1
    top = 0.0
    left_out: dict[str, list[str]] = {}
    for place, ((mode, op, window_mode), rows) in enumerate(groups):
        # Side by side by a few hundredths of an octave, so that intervals do not cover each other.
        shift = 0.0 if behind else 0.05 * (place + number * len(groups) - (of * len(groups) - 1) / 2)
        shift = max(-0.3, min(0.3, shift))
        good = [row for row in rows if row.usable]
        values = [quantity.of(row) for row in good]
        xs = [row.msg * 2**shift for row in good]
        label = mode + (f" {op.upper()}" if several_ops else "") + (f", {window_mode} window" if not source.published else "")
        label = f"{source.label}: {label}" if named and not behind else f"{label}, published" if source.published else label
        colour = COLOURS[mode, op]
        credit = window_mode == "credit"
        if good:
            top = max(top, *(high for _, _, high in values))
            errors = [[value - min(low, value) for value, low, _ in values], [max(high, value) - value for value, _, high in values]]
            axes.errorbar(
                xs,
                [value for value, _, _ in values],
                yerr=None if behind or not any(row.has_interval for row in good) else errors,
                color=colour,
                alpha=0.32 if behind else 1.0,
                linewidth=1.4 if behind else 2.0,
                linestyle=(0, (1, 1.4)) if behind else (0, (5, 2.5)) if credit else "-",
                marker="." if behind else MARKERS[number % len(MARKERS)],
                markersize=6,
                markerfacecolor=PAPER if credit else colour,
                markeredgewidth=1.5,
                elinewidth=1.2,
                capsize=3,
                zorder=2 if behind else 4,
                label=label,
            )[0].set_gid(f"series-{source.label}-{mode}-{op}-{window_mode}")
        for row in rows:
            if row.mops is None:
                left_out.setdefault(f"no figure, {row.reason or row.validity}", []).append(f"{label} {row.msg} B")
            elif not row.usable:
                marks.append((row.validity, row.msg * 2**shift, quantity.of(row)[0], row))
                left_out.setdefault(f"{row.validity}, {row.reason or 'no reason given'}", []).append(f"{label} {row.msg} B")
    for reason, names in left_out.items():
        notes.append(f"{'Left out' if reason.startswith('no figure') else 'Not joined'}: {'; '.join(names)}: {reason}.")
    return top


def _axes(axes: Axes, quantity: Quantity, sizes: list[int], top: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlim(sizes[0] / 1.45, sizes[-1] * 1.45)
    axes.set_ylim(0, top * 1.08)
    axes.set_xlabel("Message size (B)")
    axes.set_ylabel(quantity.axis)
    axes.set_facecolor(PAPER)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _lone_marks(axes: Axes, marks: list[tuple[str, float, float, Row]], top: float, notes: list[str]) -> None:
    above = 0
    for validity, size, value, row in marks:
        above += value > top
        axes.plot(
            size,
            min(value, top * 0.985),
            marker="x" if validity == "invalid" else "$?$",
            markersize=9,
            markeredgewidth=2 if validity == "invalid" else 0.6,
            color=COLOURS[row.mode, row.op],
            alpha=0.6,
            linestyle="none",
            clip_on=False,
            zorder=5,
        )
    if above:
        notes.append(f"Above the axis and drawn at its edge: {above} of these marks.")


def _legend(axes: Axes, marks: list[tuple[str, float, float, Row]]) -> int:
    """Below the axis; returns its number of lines."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i].endswith("published"))
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    for validity, marker in (("invalid", "x"), ("suspect", "$?$")):
        if any(mark[0] == validity for mark in marks):
            handles.append(Line2D([], [], color=MUTED, marker=marker, linestyle="none", markersize=8, markeredgewidth=1))
            labels.append(f"{validity} row")
    columns = min(4 if len(labels) <= 8 else 3, len(labels)) or 1
    axes.legend(
        handles,
        labels,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.115),
        ncol=columns,
        frameon=False,
        fontsize=9.5,
        handlelength=2.8,
        columnspacing=1.8,
    )
    return math.ceil(len(labels) / columns)


def _lay_out(figure: Figure, legend_lines: int, notes: str, title: str, subtitle: str) -> None:
    """Title, axes, legend and notes one below the other; the axes keep their height, the figure grows (inches)."""
    note_height = 0.165 * (notes.count("\n") + 1) if notes else 0.0
    bottom, axes_height, top = 0.85 + 0.2 * legend_lines + note_height, 3.9, 0.75
    height = bottom + axes_height + top
    figure.set_size_inches(10, height)
    figure.subplots_adjust(left=0.07, right=0.98, top=1 - top / height, bottom=bottom / height)
    figure.text(0.07, 1 - 0.33 / height, title, fontsize=16, fontweight="bold")
    figure.text(0.07, 1 - 0.57 / height, subtitle, fontsize=9.5, color=MUTED)
    figure.text(0.07, 0.12 / height, notes, fontsize=8.5, color=MUTED, va="bottom", linespacing=1.35)


def _subtitle(sources: list[Source]) -> str:
    labels: dict[str, list[str]] = {}
    for source in sources:
        devices = ", ".join(sorted({row.device for row in source.rows if row.device}))
        mtus = ", ".join(str(mtu) for mtu in sorted({row.mtu for row in source.rows if row.mtu}))
        kind = source.kind_text + (f", MTU {mtus}" if mtus else "")
        labels.setdefault(f"{devices} ({kind})" if devices else kind, []).append(source.label)
    parts = [f"{', '.join(names)}: {text}" if len(sources) > 1 else text for text, names in labels.items()]
    if any(row.has_interval for source in sources for row in source.rows):
        parts.append("bars: 95 % intervals of the median")
    return textwrap.shorten("; ".join(parts), 135, placeholder=" …")


def _description(quantity: Quantity, window: int, sources: list[Source]) -> str:
    parts = []
    for source in sources:
        for (mode, op, window_mode), rows in _groups(source, window):
            good = [row for row in rows if row.usable]
            if good:
                unit = "Mops" if quantity.name.startswith("mops") else "GiB/s"
                ends = " to ".join(f"{quantity.of(row)[0]:.3g} {unit} at {row.msg} B" for row in (good[0], good[-1]))
                parts.append(f"{source.label}, {mode} {op}, {window_mode} window: {ends}")
    return f"{quantity.title} by message size at window {window}. " + "; ".join(parts) + "."
