# SPDX-License-Identifier: Apache-2.0
"""The charts of connecting: connections a second, the time of a connect, and its parts."""

from __future__ import annotations

from report.charts import COLOURS, MARKERS, Chart, Line, gid_of, line_of, without_figures
from report.connect.rows import PARTS, Row, Source


def charts(sources: list[Source], _: Source | None) -> list[Chart]:
    return [
        _chart(
            "connects_vs_clients",
            "Connections per second",
            "Connections per second",
            {"connects_per_s": ""},
            sources,
        ),
        _chart(
            "connect_latency_vs_clients",
            "Time of a connect",
            "From the first call to established (µs)",
            {"p50_us": ", P50", "p99_us": ", P99"},
            sources,
        ),
        _chart(
            "connect_parts_vs_clients",
            "Parts of a connect",
            "Time of a part, P50 (µs)",
            {f"{prefix}_p50_us": f", {text}" for prefix, text in PARTS.items()},
            sources,
        ),
    ]


def _chart(name: str, title: str, axis: str, columns: dict[str, str], sources: list[Source]) -> Chart:
    lines: list[Line] = []
    for number, source in enumerate(sources):
        named = f"{source.label}: " if len(sources) > 1 else ""
        for way in source.ways():
            for column, text in columns.items():
                colour = COLOURS[len(lines) % len(COLOURS)]
                gid, marker = gid_of(source.label, way, column), MARKERS[number % len(MARKERS)]
                label = f"{named}{way}{text}"
                lines.append(line_of(source.drawn(way), column, _clients, label, gid, colour, marker=marker))
    rows = [row for source in sources for row in source.rows]
    return Chart(
        name=name,
        title=f"{title} by connects under way",
        subtitle="; ".join(dict.fromkeys(source.device_text for source in sources))
        + "; bars: 95 % intervals of the median",
        x_axis="Connects under way at once",
        y_axis=axis,
        ticks={row.clients: f"{row.clients:,}" for row in rows},
        lines=[line for line in lines if line.points or line.doubtful],
        notes=without_figures(rows, lambda row: row.name, "connects_per_s"),
        log_y=False,
    )


def _clients(row: Row) -> float:
    return row.clients
