# SPDX-License-Identifier: Apache-2.0
"""Calls as a value."""

from __future__ import annotations

from report.experiment import Experiment, Figure, Latency
from report.rpc import charts, claims, compare
from report.rpc.rows import Row, Source, read_rows

COLUMNS = {
    "concurrency": "In flight",
    "qps": "Requests/s",
    "gigabits_per_second": "Gb/s",
    "p50_us": "P50 (µs)",
    "p90_us": "P90 (µs)",
    "p99_us": "P99 (µs)",
    "p999_us": "P99.9 (µs)",
    "p9999_us": "P99.99 (µs)",
    "max_us": "Maximum (µs)",
    "mean_us": "Mean (µs)",
    "connections": "Connections",
    "cpu_us_per_request": "CPU per request, both ends (µs)",
    "server_cpu_us_per_request": "of it the server (µs)",
    "requests_per_message": "Requests per message",
    "pinned_kib_per_connection": "Pinned per connection (KiB)",
    "requests": "Requests counted",
}


def _spectrum(row: Row) -> tuple[str, str]:
    mode = f", {row.mode}" if row.mode != "sink" else ""
    parts = [row.rival, row.transport, "per-connection buffers" if row.words["recv_mode"] == "per_connection" else ""]
    if row.ablation:
        parts.append(f"without {row.ablation}" if row.words["without"] else f"with {row.ablation}")
    return f"{row.words['request_size']}, {row.concurrency} in flight{mode}", " ".join(filter(None, parts))


RPC = Experiment(
    name="rpc",
    title="Calls over TCP and RDMA",
    counts="A request counts when its answer was checked.",
    rows=read_rows,
    source=Source,
    published_system="rpc_rdma",
    published_table="rpc_rdma.csv",
    claims=claims.JUDGES,
    claims_note="A behaviour is judged from rows that ran in turn with and without it.",
    name_of=lambda row: row.name,
    compare=compare.compare_all,
    charts=charts.charts,
    columns=COLUMNS,
    figures=(
        Figure("qps", "Requests per second"),
        Figure("p99_us", "Latency, P99 (µs)", more_is_better=False),
    ),
    spectrum=_spectrum,
    latency=Latency(axis="From a request to its checked answer (µs)"),
)
