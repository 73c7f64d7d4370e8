"""The pictures: clients against connect time, echoes a second, latency, and server memory a connection. PNG and SVG, from the same rows.

Colour is the transport, line style the quantile. Lines join valid rows only. The published curve lies faint behind: its rows are not
comparable with each other, and are there to show what was claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot
from matplotlib.ticker import NullFormatter

from report.plots import GRID, INK, MARKERS, MUTED, PAPER, Picture
from report.scale.rows import Row, Source

COLOURS = {"rdma": "#0072b2", "tcp": "#d55e00"}
FAINT = 0.45


@dataclass(frozen=True)
class Line:
    column: str
    label: str
    style: object = "-"


@dataclass(frozen=True)
class Quantity:
    name: str  # of the file
    title: str
    axis: str
    lines: tuple[Line, ...]
    published: Callable[[Row], float]
    published_label: str
    paced: bool = False  # rows at an offered rate, if there are any


def _per_client_kib(row: Row) -> float:
    return row.values["peak_memory_mb"] * 1024 / row.clients


DASHES = (0, (5, 2.5))
QUANTITIES = (
    Quantity(
        "connect_time_vs_clients",
        "Time to connect",
        "From the first SYN to ready (ms)",
        (Line("connect_p50_ms", "p50"), Line("connect_p99_ms", "p99", DASHES)),
        lambda row: row.values["avg_connect_ms"],
        "average, published (a sleep)",
    ),
    Quantity(
        "echoes_vs_clients",
        "Verified echoes a second",
        "Echoes a second, all clients",
        (Line("messages_per_second", "median"),),
        lambda row: row.values["messages_per_second"],
        "messages a second, published (sleeps)",
    ),
    Quantity(
        "latency_vs_clients",
        "Time of an echo",
        "From a message to its verified echo (ms)",
        (Line("latency_p50_ms", "p50"), Line("latency_p99_ms", "p99", DASHES)),
        lambda row: row.values["avg_latency_ms"],
        "average, published (a sleep)",
        paced=True,
    ),
    Quantity(
        "memory_vs_clients",
        "Server memory a connection",
        "KiB a connection, all connected",
        (Line("server_kib_per_connection", "median"),),
        _per_client_kib,
        "whole process by clients, published",
    ),
)


def draw_all(sources: list[Source], published: Source, folder: Path) -> list[Picture]:
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(quantity, sources, published, folder) for quantity in QUANTITIES]


def _rows(source: Source, transport: str, quantity: Quantity) -> list[Row]:
    return source.cells(transport, paced=quantity.paced) or source.cells(transport, paced=not quantity.paced)


def _draw(quantity: Quantity, sources: list[Source], published: Source, folder: Path) -> Picture:
    style = {"font.family": "DejaVu Sans", "font.size": 11, "svg.fonttype": "path", "svg.hashsalt": quantity.name, "text.color": INK}
    told: list[str] = []
    with pyplot.rc_context({**style, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED}):
        figure, axes = pyplot.subplots(figsize=(10, 5.6), facecolor=PAPER)
        behind = sorted(published.rows, key=lambda row: row.clients)
        axes.plot(
            [row.clients for row in behind],
            [quantity.published(row) for row in behind],
            color=MUTED,
            alpha=FAINT,
            linewidth=1.4,
            linestyle=(0, (1, 1.4)),
            marker=".",
            label=quantity.published_label,
            zorder=2,
        )[0].set_gid("series-published")
        for number, source in enumerate(source for source in sources if not source.published):
            for transport in source.transports:
                rows = _rows(source, transport, quantity)
                for line in quantity.lines:
                    named = f"{source.label}: " if len(sources) > 1 else ""
                    pace = f", {rows[0].rate:.0f}/s offered" if rows and rows[0].rate and quantity.name.startswith(("lat", "echo")) else ""
                    told += _series(
                        axes, quantity, line, rows, f"{named}{transport} {line.label}{pace}", f"{source.label}-{transport}", number
                    )
        counts = sorted({row.clients for source in [*sources, published] for row in source.rows})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(counts, [f"{count:,}" if _has_room(count, counts) else "" for count in counts])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_tick_params(which="minor", length=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("Clients, all connected at once")
        axes.set_ylabel(quantity.axis)
        axes.set_facecolor(PAPER)
        axes.grid(axis="y", color=GRID, linewidth=1)
        axes.set_axisbelow(True)
        axes.tick_params(which="both", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(MUTED)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=3, frameon=False, fontsize=9.5, handlelength=2.8)
        figure.subplots_adjust(left=0.09, right=0.98, top=0.87, bottom=0.24)
        figure.text(0.09, 0.945, f"{quantity.title} by number of clients", fontsize=16, fontweight="bold")
        kinds = "; ".join(dict.fromkeys(source.kind_text for source in sources))
        figure.text(0.09, 0.9, f"{kinds}; bars: 95 % intervals of the median", fontsize=9.5, color=MUTED)
        png, svg = folder / f"{quantity.name}.png", folder / f"{quantity.name}.svg"
        figure.savefig(png, dpi=200, facecolor=PAPER, metadata={"Software": None})
        figure.savefig(svg, facecolor=PAPER, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return Picture(quantity.name, png, svg, f"{quantity.title} by number of clients. " + "; ".join(told) + ".", ())


def _series(axes: object, quantity: Quantity, line: Line, rows: list[Row], label: str, gid: str, number: int) -> list[str]:
    """Draws one line; returns it in words."""
    rows = [row for row in rows if row.get(line.column)]
    if not rows:
        return []
    values = [row.interval(line.column) for row in rows]
    colour = COLOURS.get(rows[0].transport, INK)
    errors = [[middle - low for low, middle, _ in values], [high - middle for _, middle, high in values]]
    axes.errorbar(
        [row.clients for row in rows],
        [middle for _, middle, _ in values],
        yerr=errors if any(map(any, errors)) else None,
        color=colour,
        linewidth=2.0,
        linestyle=line.style,
        marker=MARKERS[number % len(MARKERS)],
        markersize=6,
        markerfacecolor=colour if line.style == "-" else PAPER,
        capsize=3,
        label=label,
        zorder=4,
    )[0].set_gid(f"series-{gid}-{line.column}")
    ends = " to ".join(f"{row.values[line.column]:.3g} at {row.clients}" for row in (rows[0], rows[-1]))
    return [f"{label}: {ends} clients"]


def _has_room(count: int, counts: list[int]) -> bool:
    """Labels of neighbouring counts must not touch: the larger of two that are near each other is kept."""
    return not any(count < other < 1.6 * count for other in counts)
