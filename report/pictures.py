"""Draws a `Chart`, which an experiment describes, as PNG and SVG: curves over a logarithmic axis.

Lines join valid rows only. A suspect or invalid row is a separate mark, and a note under the
picture lists the rows that are left out. Published figures are faint, behind the others. Bars are
the 95 % intervals of the rows.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from report.tables import Row

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, ORANGE, PINK, GREEN, GOLD, SKY = "#0072b2", "#d55e00", "#cc79a7", "#009e73", "#b8860b", "#56b4e9"
INK, MUTED, GRID, PAPER = "#1f2933", "#5b6770", "#dfe3e8", "#ffffff"
MARKERS = "os^Dvph"
# If the highest value is less than this many times the lowest, the axis gets ticks at 2 and 5 too.
NARROW = 200.0

Point = tuple[float, float, float, float]  # x, then low, middle and high of y


@dataclass(frozen=True)
class Line:
    label: str
    gid: str  # id of the line in the SVG
    colour: str
    points: list[Point]
    dashed: bool = False
    marker: str = MARKERS[0]
    behind: bool = False  # published figures: faint, behind the other lines


@dataclass(frozen=True)
class Mark:
    """A suspect or invalid row, which no line joins."""

    validity: str
    x: float
    y: float
    colour: str


@dataclass(frozen=True)
class Chart:
    name: str  # stem of the files
    title: str
    subtitle: str
    x_axis: str
    y_axis: str
    ticks: dict[float, str]
    lines: list[Line]
    description: str  # alternative text, for readers who cannot see the picture
    marks: list[Mark]
    notes: list[str]
    log_y: bool = True


@dataclass(frozen=True)
class Picture:
    name: str
    png: Path
    svg: Path
    description: str
    notes: tuple[str, ...]


def line_of(
    rows: Iterable[Row], column: str, x: Callable[[Row], float], label: str, gid: str, colour: str, **more: object
) -> Line:
    """Return a line through the values of a column, with their intervals; `x` returns a row's x."""
    points = [(x(row), *row.interval(column)) for row in rows if row.get(column) and x(row) > 0]
    return Line(label, gid, colour, sorted(points), **more)


def in_words(lines: Iterable[Line], unit: str) -> str:
    """Return both ends of each line as text, for a chart's description."""
    parts = []
    for line in lines:
        if line.points and not line.behind:
            ends = " to ".join(f"{middle:.3g} at {x:g}" for x, _, middle, _ in (line.points[0], line.points[-1]))
            parts.append(f"{line.label}: {ends} {unit}")
    return "; ".join(parts) + "."


def draw(chart: Chart, folder: Path) -> Picture:
    folder.mkdir(parents=True, exist_ok=True)
    style = {
        "font.family": "DejaVu Sans",
        "font.size": 11,
        "svg.fonttype": "path",
        "svg.hashsalt": chart.name,
        "text.color": INK,
    }
    notes = list(chart.notes)
    with pyplot.rc_context({**style, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED}):
        figure, axes = pyplot.subplots(facecolor=PAPER)
        for line in chart.lines:
            _line(axes, line)
        top = max((high for line in chart.lines for _, _, _, high in line.points), default=0.0) or 1.0
        _axes(axes, chart, top)
        _lone_marks(axes, chart.marks, top * 1.08, notes)
        legend_lines = _legend(axes, chart.marks)
        text = "\n".join(line for note in notes for line in textwrap.wrap(note, 140))
        _lay_out(figure, legend_lines, text, chart.title, textwrap.shorten(chart.subtitle, 135, placeholder=" …"))
        png, svg = folder / f"{chart.name}.png", folder / f"{chart.name}.svg"
        figure.savefig(png, dpi=200, facecolor=PAPER, metadata={"Software": None})
        figure.savefig(svg, facecolor=PAPER, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return Picture(chart.name, png, svg, chart.description, tuple(notes))


def _line(axes: Axes, line: Line) -> None:
    if not line.points:
        return
    errors = [
        [middle - min(low, middle) for _, low, middle, _ in line.points],
        [max(high, mid) - mid for _, _, mid, high in line.points],
    ]
    axes.errorbar(
        [x for x, _, _, _ in line.points],
        [middle for _, _, middle, _ in line.points],
        yerr=None if line.behind or not any(map(any, errors)) else errors,
        color=line.colour,
        alpha=0.32 if line.behind else 1.0,
        linewidth=1.4 if line.behind else 2.0,
        linestyle=(0, (1, 1.4)) if line.behind else (0, (5, 2.5)) if line.dashed else "-",
        marker="." if line.behind else line.marker,
        markersize=6,
        markerfacecolor=PAPER if line.dashed and not line.behind else line.colour,
        markeredgewidth=1.5,
        elinewidth=1.2,
        capsize=3,
        zorder=2 if line.behind else 4,
        label=line.label,
    )[0].set_gid(f"series-{line.gid}")


def _axes(axes: Axes, chart: Chart, top: float) -> None:
    ticks = sorted(chart.ticks)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [chart.ticks[x] for x in ticks])
    axes.minorticks_off()
    if ticks:
        axes.set_xlim(ticks[0] / 1.45, ticks[-1] * 1.45)
    if chart.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high / low < NARROW:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, top * 1.08)
    axes.set_xlabel(chart.x_axis)
    axes.set_ylabel(chart.y_axis)
    axes.set_facecolor(PAPER)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _lone_marks(axes: Axes, marks: list[Mark], top: float, notes: list[str]) -> None:
    above = 0
    for mark in marks:
        above += mark.y > top
        axes.plot(
            mark.x,
            min(mark.y, top * 0.985),
            marker="x" if mark.validity == "invalid" else "$?$",
            markersize=9,
            markeredgewidth=2 if mark.validity == "invalid" else 0.6,
            color=mark.colour,
            alpha=0.6,
            linestyle="none",
            clip_on=False,
            zorder=5,
        )
    if above:
        notes.append(f"Above the axis and drawn at its edge: {above} of these marks.")


def _legend(axes: Axes, marks: list[Mark]) -> int:
    """Draw the legend below the axis, published lines last; return its number of lines."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: "published" in labels[i])
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    for validity, marker in (("invalid", "x"), ("suspect", "$?$")):
        if any(mark.validity == validity for mark in marks):
            handles.append(
                Line2D([], [], color=MUTED, marker=marker, linestyle="none", markersize=8, markeredgewidth=1)
            )
            labels.append(f"{validity} row")
    columns = min(4 if len(labels) <= 8 and max(map(len, labels), default=0) < 28 else 3, len(labels)) or 1
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
    """Place title, axes, legend and notes below each other.

    The height of the axes is fixed; the figure grows. Lengths are in inches.
    """
    note_height = 0.165 * (notes.count("\n") + 1) if notes else 0.0
    bottom, axes_height, top = 0.85 + 0.2 * legend_lines + note_height, 3.9, 0.75
    height = bottom + axes_height + top
    figure.set_size_inches(10, height)
    figure.subplots_adjust(left=0.11, right=0.98, top=1 - top / height, bottom=bottom / height)
    figure.text(0.11, 1 - 0.33 / height, title, fontsize=16, fontweight="bold")
    figure.text(0.11, 1 - 0.57 / height, subtitle, fontsize=9.5, color=MUTED)
    figure.text(0.11, 0.12 / height, notes, fontsize=8.5, color=MUTED, va="bottom", linespacing=1.35)
