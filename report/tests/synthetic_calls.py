# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC tables of `verbena bench rpc`. Each figure of a row follows from its repetitions."""

from __future__ import annotations

import json
from itertools import count
from statistics import median

SIZES = {"128B": 128, "4K": 4096, "256K": 256 << 10, "1M": 1 << 20}
ENVIRONMENT = {"device": "vb_synthetic", "kind": "software"}
NUMBERS = count(1)  # no two repetitions take the same times
AROUND = (0.99, 0.995, 1.0, 1.005, 1.01)


def title(row: dict[str, object]) -> str:
    """Return the cell in the words of the program."""
    text = f"{row['request_size']} x {row['concurrency']} over {row['transport']}"
    text += f" by {row['system']}" if row["system"] != "verbena" else ""
    text += f", {row['mode']}" if row["mode"] != "sink" else ""
    text += f", {row['recv_mode']}" if row["recv_mode"] == "per_connection" else ""
    if row["without"]:
        return f"{text}, without {row['without']}"
    return f"{text}, with {row['ablation']}" if row["ablation"] else text


def repetition(row: dict[str, object], qps: float, p99: float, busy: float) -> dict[str, object]:
    """Return a second in which each caller waits for the share `busy` of it."""
    requests, size = round(qps), SIZES[str(row["request_size"])]
    concurrency, without = int(str(row["concurrency"])), row["without"]
    mean = busy * concurrency * 1e6 / requests * (1 - next(NUMBERS) / 1e8)
    counts = dict.fromkeys(("frames", "messages", "connections", "rdma_frames", "rdma_frames_inline"), 0)
    counts |= {"registrations": 0, "parts_most": 0, "pinned_kib": 0.0}
    if row["system"] == "verbena":
        pooled = row["ablation"] == "connection-pool"
        counts |= {"frames": requests, "messages": requests, "connections": requests if without and pooled else 1}
        if row["ablation"] == "coalescing" and not without:
            counts["messages"] = requests // min(4, concurrency)
    if row["transport"] == "rdma":
        counts |= {"rdma_frames": requests, "rdma_frames_inline": 0 if without == "inline" else requests}
        counts |= {"registrations": requests if without == "pool" else 1, "parts_most": 1}
        counts |= {"pinned_kib": 2560.0 if row["recv_mode"] == "per_connection" else 256.0}
    latency = {"p50_us": 0.9 * mean, "p90_us": min(1.2, p99) * mean}
    latency |= {f"{name}_us": p99 * mean for name in ("p99", "p999", "p9999", "max")}
    return {
        "cell": title(row),
        "requests": requests,
        "failed": 0,
        "served": requests,
        "callers": concurrency,
        "payload_bytes": requests * size,
        "seconds": 1.0,
        "latency_sum_us": mean * requests,
        "client_cpu_s": 0.7,
        "server_cpu_s": 0.3,
        "core_to_core_ns": None,
        "qps": float(requests),
        "failure": "",
        **counts,
        **latency,
    }


def row(
    size: str,
    concurrency: int,
    qps: float,
    *,
    rates: tuple[float, ...] = AROUND,
    p99: tuple[float, ...] = (1.5,),
    busy: float = 1.0,
    **cell: str,
) -> dict[str, object]:
    """Return a row of five repetitions, whose rates are `qps` times each of `rates`.

    `p99` are the percentiles of the repetitions, in mean latencies; one stands for all.
    """
    words = {"system": "verbena", "transport": "rdma", "mode": "sink", "ablation": "", "without": ""} | cell
    words |= {"recv_mode": cell.get("recv_mode", "srq"), "memory": "user"} if words["transport"] == "rdma" else {}
    made: dict[str, object] = {"request_size": size, "concurrency": concurrency, "recv_mode": "", "memory": ""} | words
    late = p99 * len(rates) if len(p99) == 1 else p99
    each = [repetition(made, qps * rate, one, busy) for rate, one in zip(rates, late, strict=True)]
    found = sorted(float(str(one["qps"])) for one in each)
    middle = median(found)
    requests = sum(found)
    cpu = median(1e6 / one for one in found)
    made |= {"gigabits_per_second": middle * SIZES[size] * 8 / 1e9, "qps": middle, "connections": 1, "seconds": 1}
    made |= {"qps_low": found[0], "qps_high": found[-1], "spread": (found[-1] - found[0]) / middle}
    lates = sorted(float(str(one["p99_us"])) for one in each)
    made |= {"p99_us_low": lates[0], "p99_us_high": lates[-1]}
    made |= {"mean_us": sum(float(str(one["latency_sum_us"])) for one in each) / requests, "requests": round(requests)}
    for name in ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us"):
        made[name] = median(float(str(one[name])) for one in each)
    made["max_us"] = max(float(str(one["max_us"])) for one in each)
    made |= {"cpu_us_per_request": cpu, "server_cpu_us_per_request": 0.3 * cpu}
    ours, over_rdma = words["system"] == "verbena", words["transport"] == "rdma"
    made |= {
        "requests_per_message": _requests_per_message(each) if ours else None,
        "inline_share": None,
        "pinned_kib_per_connection": None,
    }
    made |= {"registrations": None, "parts_under_way": None, "connections_made": None}
    if ours:
        made["connections_made"] = sum(int(str(one["connections"])) for one in each)
    if over_rdma:
        made |= {"inline_share": 0.0 if words["without"] == "inline" else 1.0, "parts_under_way": 1}
        made["registrations"] = sum(int(str(one["registrations"])) for one in each)
        made["pinned_kib_per_connection"] = each[0]["pinned_kib"]
    return made | {"validity": "", "reason": "", "repetitions": json.dumps(each)}


def _requests_per_message(repetitions: list[dict[str, object]]) -> float:
    return median(int(str(one["frames"])) / int(str(one["messages"])) for one in repetitions)
