# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC rows of `verbena bench kv`, in which no figure was ever measured."""

from __future__ import annotations

import json
from itertools import count as counted_from

REPETITIONS = 5
NUMBERS = counted_from(1)  # no two repetitions take the same times
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")
CELL = (
    *("op", "value_bytes", "system", "varied", "proto", "form", "window", "clients", "stalled", "transport"),
    *("rx_depth", "tx_depth", "eager_max", "warmup", "iters"),
)


def row(
    op: str,
    proto: str,
    size: int,
    rate: float,
    interval: tuple[float, float] = (0.99, 1.01),
    p99_times: tuple[float, ...] = (2.0,) * REPETITIONS,
    failure: str = "",
    **changes: object,
) -> dict[str, object]:
    """Return a row that follows from five repetitions at `rate`, between the ends of `interval`.

    `p99_times` are the P99 of the repetitions, in times of their P50.
    """
    protocol = "rendezvous" if proto == "rendezvous" or (proto == "auto" and size >= 4096) else proto
    made: dict[str, object] = {
        "op": op,
        "protocol": "eager" if protocol == "auto" else protocol,
        "value_bytes": size,
        "system": "verbena",
        "varied": "",
        "proto": proto,
        "form": "read" if proto in ("rendezvous", "auto") else "",
        "window": 1,
        "clients": 1,
        "stalled": 0,
        "transport": "rdma",
        "rx_depth": 6000,
        "tx_depth": 6000,
        "eager_max": 4096,
        "warmup": 50,
        "iters": 60000,
        "seconds_max": 60,
    } | changes
    factors = (interval[0], 1.0, 1.0, 1.0, interval[1])
    repetitions = [
        repetition(made, rate * factor * (1 - place / 1e4), times, failure)
        for place, (factor, times) in enumerate(zip(factors, p99_times, strict=True))
    ]
    return made | figures(made, repetitions)


def rival(system: str, transport: str, op: str, size: int, rate: float) -> dict[str, object]:
    names = {"system": system, "transport": transport, "protocol": "RESP" if system == "redis" else "text"}
    return row(op, "", size, rate, **names, **dict.fromkeys(("rx_depth", "tx_depth", "eager_max"), ""))


def repetition(made: dict[str, object], rate: float, p99_times: float, failure: str) -> dict[str, object]:
    count, lanes = int(made["iters"]), made["window"] * made["clients"]
    elapsed = round(count * 1e9 / rate) + next(NUMBERS)
    latency = int(0.99 * elapsed * lanes / count)
    p99 = latency / 1e3 * p99_times
    named = ", ".join(f"{name} {made[name]}" for name in CELL if made[name] != "")
    repetition = {
        "cell": named,
        "operations": count,
        "elapsed_ns": elapsed,
        "latency_sum_ns": latency * count - next(NUMBERS),
        "payload_bytes": count * made["value_bytes"],
        "wrong": 0,
        "warmup": made["warmup"],
        "clients": made["clients"],
        "depth_max": made["window"],
    }
    if made["system"] == "verbena":
        repetition |= counts(made, count)
    repetition |= {"operations_per_second": count * 1e9 / elapsed, "core_to_core_ns": 110, "failure": failure}
    return repetition | dict.fromkeys(PERCENTILES, p99) | dict.fromkeys(PERCENTILES[:2], latency / 1e3)


def counts(made: dict[str, object], count: int) -> dict[str, int]:
    """Return the counts of the protocol that the row used."""
    names = ("messages", "eager", "reads", "writes", "leased", "copied", "one_sided", "registrations")
    found = dict.fromkeys(names, 0)
    if made["protocol"] == "one-sided":
        return found | {"one_sided": count}
    found["messages"] = 2 * count
    if made["protocol"] == "eager":
        return found | {"eager": count}
    return found | ({"leased": count} if made["op"] == "SET" else {"reads": count, "eager": count})


def figures(made: dict[str, object], repetitions: list[dict[str, object]]) -> dict[str, object]:
    rates = sorted(each["operations_per_second"] for each in repetitions)
    middle = REPETITIONS // 2
    found = {"operations_per_second": rates[middle]}
    found |= {"operations_per_second_low": rates[0], "operations_per_second_high": rates[-1]}
    giga = made["value_bytes"] / 1e9
    found |= {name.replace("operations", "gigabytes"): rate * giga for name, rate in found.items()}
    found["gibibytes_per_second"] = rates[middle] * made["value_bytes"] / 2**30
    found |= {"reps": REPETITIONS, "operations": sum(each["operations"] for each in repetitions)}
    for name in PERCENTILES:
        found[name] = sorted(each[name] for each in repetitions)[middle]
    found["max_us"] = max(each["max_us"] for each in repetitions)
    found["depth"] = sorted(each["latency_sum_ns"] / each["elapsed_ns"] for each in repetitions)[middle]
    found |= {"depth_max": made["window"], "core_to_core_ns": 110, "spread": (rates[-1] - rates[0]) / rates[middle]}
    if made["system"] == "verbena":
        for name in ("messages", "one_sided", "copied"):
            found[f"{name}_per_operation"] = repetitions[0][name] / repetitions[0]["operations"]
        found["registrations"] = 0
    return found | {"validity": "valid", "reason": "", "repetitions": json.dumps(repetitions)}
