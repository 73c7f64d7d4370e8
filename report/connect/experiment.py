# SPDX-License-Identifier: Apache-2.0
"""Connecting as a value."""

from __future__ import annotations

from report.compare import Comparison, Question, repeated
from report.connect import charts, claims
from report.connect.rows import PARTS, Row, Source, read_rows
from report.experiment import Experiment, Figure, Latency

COLUMNS = {
    "clients": "Under way",
    "count": "Connections",
    "connects_per_s": "Connections/s",
    "spread": "Spread",
    "p50_us": "P50 (µs)",
    "p99_us": "P99 (µs)",
    "p9999_us": "P99.99 (µs)",
    "max_us": "Maximum (µs)",
    **{f"{prefix}_p50_us": f"{text}, P50 (µs)" for prefix, text in PARTS.items()},
    "disconnects_per_s": "Disconnections/s",
    "disconnect_p50_us": "Disconnect, P50 (µs)",
    "established": "Established",
    "round_trip_ns": "Core to core (ns)",
}
MANY = Question(
    "Many connects under way against one",
    "one",
    "many",
    "connections/s",
    "While one end works on one connect, the other need not sleep.",
)


def _compare(source: Source) -> list[Comparison]:
    found = []
    for way in source.ways():
        rows = source.drawn(way)
        alone = next((row for row in rows if row.clients == 1), None)
        twice = repeated(rows, lambda row: row.clients)
        found += [
            Comparison(
                MANY,
                way,
                f"{row.clients} under way by {way}",
                "connects_per_s",
                alone,
                row,
                bool({1, row.clients} & twice),
            )
            for row in rows
            if alone is not None and row.clients > 1
        ]
    return found


def _spectrum(row: Row) -> tuple[str, str]:
    return f"a connect by {row.connect}", f"{row.clients} under way"


CONNECT = Experiment(
    name="connect",
    title="Connecting",
    counts="A connection counts when both ends have seen it established; the server counts them too.",
    rows=read_rows,
    source=Source,
    published_system="connection_scale",
    claims=claims.JUDGES,
    claims_note="The claim was published for clients of one server; here clients are connects under way at once.",
    name_of=lambda row: row.name,
    compare=_compare,
    charts=charts.charts,
    columns=COLUMNS,
    figures=(Figure("connects_per_s", "Connections per second"),),
    spectrum=_spectrum,
    latency=Latency("total_ns", axis="Time of a connect (µs)"),
)
