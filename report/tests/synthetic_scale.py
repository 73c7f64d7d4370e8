# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC rows of many clients, in which no figure was ever measured.

Each row follows from the repetitions that it carries, as in a table of `verbena bench scale`.
"""

from __future__ import annotations

import json
from itertools import count
from statistics import median

from report.tests.synthetic import table_text

COUNTS = (10, 100, 1000, 5000, 10000, 20000)
MESSAGES, SIZE = 20, 64
BEFORE = 10 << 20  # bytes of a server without clients
NUMBERS = count(1)  # no two repetitions take the same times
FACTORS = (0.99, 1.0, 1.01)
CAUSES = ("connect", "timed_out", "no_descriptor", "no_port", "lost", "wrong_echo")
# The columns of counts that a repetition needs, and that are the same in all of these rows.
QUIET = {"clients_cpu_ns": 10**7, "clients_switches": 50, "server_cpu_ns": 10**7, "distinct_ids": None}
QUIET |= {"kernel_before": 0, "kernel_connected": 0, "queue_pairs_max": 65536, "idle_ns": None, "idle_cpu_ns": None}

Row = dict[str, object]


def repetition(cell: Row, rate: float, wanted: Row) -> Row:
    """Return a repetition of `rate` echoes a second."""
    clients, lost = cell["clients"], wanted["lost"]
    rdma = cell["transport"] == "rdma"
    echoes = (clients - lost) * MESSAGES
    took = round(echoes / rate * 1e9)
    connected = BEFORE + round(wanted["kib"] * 1024 * clients)
    one = {"cell": cell, "failure": "", "good": clients - lost, "connected": clients, "echoes": echoes}
    one |= {"echoes_squared": (clients - lost) * MESSAGES**2, "payload_bytes": echoes * SIZE, "latencies": echoes}
    one |= {"connecting_ns": round(wanted["connecting_ms"] * 1e4 * clients), "counted": echoes}
    one |= dict.fromkeys(("messages_ns", "window_ns", "counted_ns"), took)
    one |= {"connect_sum_ns": round(wanted["connect_ms"] * 1e6) * clients - next(NUMBERS)}
    one |= {"latency_sum_ns": round(wanted["latency_ms"] * 1e6) * echoes}
    one |= {f"failed_{cause}": lost if cause == "lost" else 0 for cause in CAUSES}
    one |= {"server_echoes": echoes, "peak_clients": clients, "queue_pairs": clients if rdma else 0}
    one |= {"threads": wanted["threads"], "server_switches": round(took / 1e9 * 100)}
    one |= {"resident_before": BEFORE, "resident_connected": connected, "resident_peak": connected}
    one |= dict.fromkeys(("send_posts", "receive_posts"), echoes if rdma else None)
    one |= {"connect_p50_ms": wanted["connect_ms"] * 0.9, "connect_p99_ms": wanted["connect_ms"] * 1.4}
    # In a short run connects take longer than all of them together, so the longest is not stated.
    all_ms = one["connecting_ns"] / 1e6
    one |= {"connect_max_ms": all_ms if all_ms > wanted["connect_ms"] * 1.4 else None}
    one |= {"latency_p50_ms": wanted["latency_ms"] * 0.8, "latency_p99_ms": wanted["latency_ms"] * 3}
    one |= {"latency_max_ms": wanted["latency_max_ms"], "round_trip_ns": 110.0} | QUIET
    return one if wanted["cpu_percent"] is None else one | {"server_cpu_ns": round(took * wanted["cpu_percent"] / 100)}


def row(clients: int, **changes: object) -> Row:
    """Return a row of a server whose figures do not depend on the number of clients.

    A change is a value of the cell (`rate`, `engine`, `transport`), or one of: `per_second` and
    `spread` for the rate of the repetitions, `connecting_ms` for 100
    clients, `cpu_percent` of the server, `connect_ms`, `latency_ms`, `latency_max_ms`, `kib`
    for each connection, `threads`, `lost` clients.
    """
    cell: Row = {"clients": clients, "system": "verbena", "transport": "rdma", "connect": "tls-psn"}
    cell |= {"engine": "epoll", "rate": 0, "size": SIZE, "window": 1, "shared_qps": 0, "without": "", "stalled": 0}
    cell |= {"server": "own", "messages": MESSAGES, "think_ms": 0, "stagger_ms": 0, "handshakes": 64}
    cell |= {"warmup_s": 0, "seconds": 0} | {name: value for name, value in changes.items() if name in cell}
    wanted: Row = {"per_second": cell["rate"] or 30000, "spread": FACTORS, "connect_ms": 15, "latency_ms": 0.28}
    wanted |= {"latency_max_ms": 5, "kib": 8.3, "threads": clients + 2 if cell["engine"] == "threads" else 3}
    wanted |= {"lost": 0, "connecting_ms": 15, "cpu_percent": None} | {
        name: value for name, value in changes.items() if name not in cell
    }
    repetitions = [repetition(cell, wanted["per_second"] * factor, wanted) for factor in wanted["spread"]]
    return cell | figures(repetitions) | {"reason": "", "repetitions": json.dumps(repetitions)}


def figures(repetitions: list[Row]) -> Row:
    """Return what the repetitions give, as bench/scale/rows.cc computes it."""

    def each(numerator: str, denominator: str, factor: float = 1.0) -> list[float]:
        return [one[numerator] / one[denominator] * factor for one in repetitions]

    first = repetitions[0]
    clients = first["cell"]["clients"]
    rates = sorted(each("counted", "counted_ns", 1e9))
    kib = [(one["resident_connected"] - BEFORE) / 1024 / clients for one in repetitions]
    joined = each("connected", "connecting_ns", 1e9)
    found: Row = {"success_percent": 100.0 * first["good"] / clients, "messages_per_second": median(rates)}
    found |= {"avg_connect_ms": median(each("connect_sum_ns", "connected", 1e-6))}
    found |= {"avg_latency_ms": median(each("latency_sum_ns", "latencies", 1e-6))}
    found |= {"peak_memory_mb": first["resident_peak"] / 2**20, "peak_threads": first["threads"]}
    found |= {"messages_per_second_low": rates[0], "messages_per_second_high": rates[-1]}
    found |= {"spread": (rates[-1] - rates[0]) / median(rates)}
    found |= {name: first[name] for name in first if name.endswith(("_p50_ms", "_p99_ms", "_max_ms"))}
    for name, values in (("connections_per_s", joined), ("server_kib_per_connection", kib)):
        found |= {name: median(values), f"{name}_low": min(values), f"{name}_high": max(values)}
    found |= {"server_peak_kib_per_connection": median(kib), "peak_clients": clients, "qps": first["queue_pairs"]}
    for side in ("server", "clients"):
        found[f"{side}_cpu_percent"] = median(each(f"{side}_cpu_ns", "window_ns", 100))
        found[f"{side}_switches_per_s"] = median(each(f"{side}_switches", "window_ns", 1e9))
    found |= {f"{side}_echoes": sum(one["echoes"] for one in repetitions) for side in ("server", "client")}
    doorbells = 2.0 if first["send_posts"] else None
    found |= dict.fromkeys(("doorbells_per_echo", "doorbells_per_echo_low", "doorbells_per_echo_high"), doorbells)
    found |= {"jain": first["echoes"] ** 2 / (clients * first["echoes_squared"])}
    found |= {name: first[name] * len(repetitions) for name in first if name.startswith("failed_")}
    return found | {"round_trip_ns": first["round_trip_ns"]}


def redis_row(clients: int, per_second: float) -> Row:
    """Return a row of redis-benchmark, with the columns of ours."""
    cell = dict.fromkeys(json.loads(str(row(clients)["repetitions"]))[0]["cell"])
    cell |= {"clients": clients, "system": "redis", "transport": "tcp", "connect": "clear", "rate": 0, "size": SIZE}
    cell |= {"window": 1, "server": "own"}
    one = {"cell": cell, "failure": "", "requests": 30000, "elapsed_ns": round(30000 / per_second * 1.1e9)}
    one |= {"requests_per_s": per_second, "round_trip_ns": 110.0, "avg_latency_ms": clients / per_second * 900}
    one |= dict.fromkeys(("latency_p50_ms", "latency_p99_ms", "latency_max_ms"))
    each = [one | {"elapsed_ns": one["elapsed_ns"] + next(NUMBERS)} for _ in FACTORS]
    found = {"messages_per_second": per_second, "messages_per_second_low": per_second, "spread": 0.0}
    found |= {"messages_per_second_high": per_second, "avg_latency_ms": one["avg_latency_ms"], "round_trip_ns": 110.0}
    return dict.fromkeys(row(clients)) | cell | found | {"reason": "", "repetitions": json.dumps(each)}


def not_run(clients: int, reason: str) -> Row:
    """Return the row of a cell that was not measured."""
    kept = json.loads(str(row(clients)["repetitions"]))[0]["cell"]
    return dict.fromkeys(row(clients)) | kept | {"reason": reason, "repetitions": "[]"}


def csv_text(table: list[Row]) -> str:
    return table_text(table, {"device": "vb_synthetic", "kind": "software", "memory_bytes": "8589934592"})
