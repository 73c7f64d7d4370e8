# SPDX-License-Identifier: Apache-2.0
"""Draws a `Chart` as PNG and SVG with matplotlib: curves over a logarithmic axis.

Each line is shifted by a few hundredths of an octave, so that bars do not hide each other. Notes
under the picture list the doubtful rows, with their reasons.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from report.charts import Chart, Line, Point

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
HEX = {
    "blue": "#0072b2",
    "orange": "#d55e00",
    "green": "#009e73",
    "pink": "#cc79a7",
    "gold": "#b8860b",
    "sky": "#56b4e9",
    "ink": "#1f2933",
    "muted": "#5b6770",
}
INK, MUTED, GRID, PAPER = HEX["ink"], HEX["muted"], "#dfe3e8", "#ffffff"
# If the highest value is less than this many times the lowest, the axis gets ticks at 2 and 5 too.
NARROW = 200.0
NOTES_MAX = 6  # under a picture; the page has all of them


@dataclass(frozen=True)
class Picture:
    name: str
    png: Path
    svg: Path


def draw(chart: Chart, folder: Path) -> Picture:
    folder.mkdir(parents=True, exist_ok=True)
    style = {
        "font.family": "DejaVu Sans",
        "font.size": 11,
        "svg.fonttype": "path",
        "svg.hashsalt": chart.name,
        "text.color": INK,
        # Names of files and devices may have a $, which is no formula.
        "text.parse_math": False,
    }
    notes = list(chart.notes) + _doubts(chart)
    with pyplot.rc_context({**style, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED}):
        figure, axes = pyplot.subplots(facecolor=PAPER)
        shifts = _shifts(chart.lines)
        for line, shift in zip(chart.lines, shifts, strict=True):
            _line(axes, line, shift)
        top = max((point.high for line in chart.lines for point in line.points), default=0.0)
        top = top or max((point.middle for line in chart.lines for point in line.doubtful), default=1.0)
        _axes(axes, chart, top)
        _lone_points(axes, chart.lines, shifts, top * 1.08, notes)
        legend_lines = _legend(axes, chart.lines)
        more = [f"{len(notes) - NOTES_MAX} more notes are on the page."] if len(notes) > NOTES_MAX else []
        text = "\n".join(line for note in notes[:NOTES_MAX] + more for line in textwrap.wrap(note, 140))
        _lay_out(figure, legend_lines, text, chart.title, textwrap.shorten(chart.subtitle, 135, placeholder=" …"))
        png, svg = folder / f"{chart.name}.png", folder / f"{chart.name}.svg"
        try:
            figure.savefig(png, dpi=200, facecolor=PAPER, metadata={"Software": None})
            figure.savefig(svg, facecolor=PAPER, metadata={"Date": None, "Creator": None})
        except OSError as error:
            error.filename = error.filename or str(folder)
            raise
        pyplot.close(figure)
    return Picture(chart.name, png, svg)


def _shifts(lines: list[Line]) -> list[float]:
    """Return the factor of x of each line; those behind are not shifted."""
    count = sum(not line.behind for line in lines)
    step, place, factors = min(0.05, 0.3 / max(count, 1)), 0, []
    for line in lines:
        factors.append(1.0 if line.behind else 2 ** (step * (place - (count - 1) / 2)))
        place += not line.behind
    return factors


def _doubts(chart: Chart) -> list[str]:
    """Return a note for each reason for which rows are not joined."""
    reasons: dict[str, list[str]] = {}
    for line in chart.lines:
        for point in line.doubtful:
            place = f"{line.label} at {chart.ticks.get(point.x, f'{point.x:g}')}"
            reasons.setdefault(f"{point.validity}, {point.reason or 'no reason given'}", []).append(place)
    return [f"Not joined: {'; '.join(places)}: {reason}." for reason, places in reasons.items()]


def _line(axes: Axes, line: Line, shift: float) -> None:
    if not line.points:
        return
    errors = [
        [point.middle - min(point.low, point.middle) for point in line.points],
        [max(point.high, point.middle) - point.middle for point in line.points],
    ]
    axes.errorbar(
        [point.x * shift for point in line.points],
        [point.middle for point in line.points],
        yerr=None if line.behind or not any(map(any, errors)) else errors,
        color=HEX[line.colour],
        alpha=0.32 if line.behind else 1.0,
        linewidth=1.4 if line.behind else 2.0,
        linestyle=(0, (1, 1.4)) if line.behind else (0, (5, 2.5)) if line.dashed else "-",
        marker="." if line.behind else line.marker,
        markersize=6,
        markerfacecolor=PAPER if line.dashed and not line.behind else HEX[line.colour],
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


def _lone_points(axes: Axes, lines: list[Line], shifts: list[float], top: float, notes: list[str]) -> None:
    above = 0
    for line, shift in zip(lines, shifts, strict=True):
        for point in line.doubtful:
            above += point.middle > top
            axes.plot(
                point.x * shift,
                min(point.middle, top * 0.985),
                marker=_sign(point),
                markersize=9,
                markeredgewidth=2 if point.validity == "invalid" else 0.6,
                color=HEX[line.colour],
                alpha=0.3 if line.behind else 0.6,
                linestyle="none",
                clip_on=False,
                zorder=5,
            )
    if above:
        notes.append(f"Above the axis and drawn at its edge: {above} of these marks.")


def _sign(point: Point) -> str:
    return "x" if point.validity == "invalid" else "$?$"


def _legend(axes: Axes, lines: list[Line]) -> int:
    """Draw the legend below the axis, published lines last; return its number of lines."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: "published" in labels[i])
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    doubtful = {point.validity: _sign(point) for line in lines for point in line.doubtful}
    for validity, marker in sorted(doubtful.items()):
        handles.append(Line2D([], [], color=MUTED, marker=marker, linestyle="none", markersize=8, markeredgewidth=1))
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
