"""One self-contained HTML page for many clients: pictures, verdicts and rows, every sentence and figure made from the tables."""

from __future__ import annotations

from functools import partial

from report import page
from report.scale.rows import Row

COLUMNS = {
    "qps": "QPs",
    "rate": "Offered (messages/s)",
    "success_percent": "Success (%)",
    "avg_connect_ms": "Connect, average (ms)",
    "connect_p50_ms": "p50 (ms)",
    "connect_p99_ms": "p99 (ms)",
    "connections_per_s": "Connections/s",
    "messages_per_second": "Echoes/s",
    "avg_latency_ms": "Latency, average (ms)",
    "latency_p50_ms": "p50 (ms)",
    "latency_p99_ms": "p99 (ms)",
    "latency_max_ms": "Most (ms)",
    "jain": "Jain's index",
    "doorbells_per_echo": "Doorbells an echo",
    "server_kib_per_connection": "Server memory a connection (KiB)",
    "peak_memory_mb": "Peak memory (MB)",
    "peak_threads": "Threads",
    "server_cpu_percent": "Server CPU (% of a core)",
    "server_idle_cpu_percent": "Server CPU, all idle (%)",
    "server_switches_per_s": "Server's context switches/s",
    "peak_clients": "Clients at once",
    "distinct_ids": "Different logical clients",
    "redis_per_second": "redis (requests/s)",
    "over_redis": "Times redis",
    "round_trip_ns": "Core to core (ns)",
}


def _name(row: Row) -> str:
    kinds = ["shared" if row.shared else "", "threads" if row.engine == "threads" else "", row.apart]
    return " ".join(filter(None, [f"{row.clients:,}", row.transport, *kinds]))


LAYOUT = page.Layout(
    title="Many clients of one server",
    lead=(
        "Every client is a connection of its own, and none sends before all are connected. A message counts when its client has "
        "verified the echo and the server has counted it."
    ),
    claims_note="Each published sentence is judged from the rows over RDMA of each table. Only valid rows bear anything out.",
    first="Clients",
    name=_name,
    columns=COLUMNS,
    with_interval=("messages_per_second",),
)
render = partial(page.render, LAYOUT)
