# SPDX-License-Identifier: Apache-2.0
"""Many clients as a value."""

from __future__ import annotations

from report.experiment import Experiment, Figure, Latency
from report.scale import charts, claims, compare
from report.scale.rows import Row, Source, read_rows

COLUMNS = {
    "clients": "Clients",
    "rate": "Offered (messages/s)",
    "messages_per_second": "Echoes/s",
    "latency_p50_ms": "Latency P50 (ms)",
    "latency_p99_ms": "P99 (ms)",
    "latency_max_ms": "Maximum (ms)",
    "avg_latency_ms": "Average (ms)",
    "success_percent": "Success (%)",
    "qps": "QPs",
    "avg_connect_ms": "Connect, average (ms)",
    "connect_p50_ms": "Connect P50 (ms)",
    "connect_p99_ms": "P99 (ms)",
    "connections_per_s": "Connections/s",
    "jain": "Jain's index",
    "doorbells_per_echo": "Doorbells per echo",
    "server_kib_per_connection": "Server memory per connection (KiB)",
    "peak_memory_mb": "Peak memory (MB)",
    "peak_threads": "Threads",
    "server_cpu_percent": "Server CPU (% of a core)",
    "server_idle_cpu_percent": "Server CPU, all clients idle (%)",
    "server_switches_per_s": "Server's context switches/s",
    "peak_clients": "Clients connected at once",
    "distinct_ids": "Different logical clients",
    "round_trip_ns": "Core to core (ns)",
}


def _spectrum(row: Row) -> tuple[str, str]:
    pace = f", {row.rate:.0f}/s offered" if row.rate else ""
    return f"echo of {row.clients:,} clients{pace}", row.name


SCALE = Experiment(
    name="scale",
    title="Many clients of one server",
    counts=(
        "None sends before all are connected. A message counts when its client has verified the echo and the server "
        "has counted it."
    ),
    rows=read_rows,
    source=Source,
    published_system="connection_scale",
    published_table="connection_scale.csv",
    claims=claims.JUDGES,
    claims_note="Judged from the rows over RDMA, which the claims are about.",
    name_of=lambda row: row.name,
    compare=compare.compare_all,
    charts=charts.charts,
    columns=COLUMNS,
    figures=(
        Figure("messages_per_second", "Echoes per second"),
        Figure("connections_per_s", "Connections per second"),
        Figure("server_kib_per_connection", "Server memory per connection (KiB)", more_is_better=False),
    ),
    spectrum=_spectrum,
    latency=Latency("latency_ns", "latency_", "_ms", 1e6, "Latency of an echo (ms)"),
)
