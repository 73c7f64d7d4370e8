# SPDX-License-Identifier: Apache-2.0
"""The key-value store as a value."""

from __future__ import annotations

from report.experiment import Experiment, Figure, Latency
from report.kv import charts, claims, compare, goals
from report.kv.rows import TIMES_ALONE, Row, Source, parameter, read_rows, size_text

COLUMNS = {
    "value_bytes": "Value (B)",
    "window": "Window",
    "operations_per_second": "Operations/s",
    "gigabytes_per_second": "GB/s",
    "p50_us": "P50 (µs)",
    "p99_us": "P99 (µs)",
    "p9999_us": "P99.99 (µs)",
    "max_us": "Maximum (µs)",
    TIMES_ALONE: "P99 relative to that without stalled clients",
    "depth": "Under way, mean",
    "messages_per_operation": "Messages per operation",
    "one_sided_per_operation": "One-sided READs per operation",
    "stalled": "Stalled clients",
    "rx_depth": "Receive depth",
    "warmup": "Warm-up",
    "iters": "Operations asked for",
    "operations": "Operations timed",
    "reps": "Repetitions",
    "spread": "Spread",
    "core_to_core_ns": "Core to core (ns)",
}


def _spectrum(row: Row) -> tuple[str, str]:
    many = f", {row.clients} clients" if row.clients > 1 else ""
    line = row.way + (", tcp" if row.transport == "tcp" else "")
    if row.varied:
        line += f", {row.varied} {parameter(row):g}"
    return f"{row.op} {size_text(row.size)}, window {row.window}{many}", line


KV = Experiment(
    name="kv",
    title="The key-value store",
    counts="GB/s are 10⁹ bytes of values per second.",
    rows=read_rows,
    source=Source,
    published_system="kv_set_get",
    published_table="kv_set_get.csv",
    claims=claims.JUDGES,
    claims_note=(
        "Mislabelled rows support no claim either. The published table has no size with both protocols, so it cannot "
        "show which one is faster."
    ),
    goals=goals.judge_all,
    name_of=lambda row: row.name,
    compare=compare.compare_all,
    charts=charts.charts,
    words={"protocol": "Protocol"},
    columns=COLUMNS,
    figures=(
        Figure("operations_per_second", "Operations per second"),
        Figure(TIMES_ALONE, "P99 beside stalled clients", more_is_better=False),
    ),
    spectrum=_spectrum,
    latency=Latency(axis="From an operation to its answer (µs)"),
)
