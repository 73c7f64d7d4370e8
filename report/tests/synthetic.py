# SPDX-License-Identifier: Apache-2.0
"""SYNTHETIC result tables, in which no figure was ever measured.

One has the columns of `verbena bench rcud`; others are given as text.
"""

from __future__ import annotations

import csv
import io
import json
from itertools import count

COLUMNS = (
    *("experiment", "mode", "msg", "window", "iters", "mops", "gib", "op", "window_mode", "device", "mtu"),
    *("posted", "completed", "delivered", "lost", "duplicated", "reordered", "spread", "mops_low", "mops_high"),
    *("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us", "rtt_before_ns", "rtt_after_ns", "rtt_class"),
    *("qps", "senders", "receiver_qps", "qps_used", "validity", "reason", "repetitions"),
)
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
ENVIRONMENT = {
    "device": "vb_synthetic",
    "kind": "software",
    "note": "SYNTHETIC data made by a test; nothing was measured",
    "cpu": "none",
}


REPETITION_MESSAGES = 40_000
NUMBERS = count(1)  # no two repetitions take the same times


def repetition(mode: str, msg: int, window: int, window_mode: str, mops: float) -> dict[str, object]:
    lost = 240 if mode == "UD" and window_mode == "local" else 0
    delivered = REPETITION_MESSAGES - lost if mops else 0
    counts = {
        "cell": f"{mode} send {msg} B window {window} {window_mode}",
        "latencies": REPETITION_MESSAGES // 61,
        "iters": REPETITION_MESSAGES,
        "posted": REPETITION_MESSAGES,
        "completed": REPETITION_MESSAGES,
        "delivered": delivered,
    }
    counts |= {"duplicated": 0, "reordered": 0, "corrupt": 0, "stale": 0, "counted": delivered}
    counts |= {"sender_ns": round(REPETITION_MESSAGES * 1e3 / (mops or 1.0)) + next(NUMBERS)}
    counts |= {
        "counted_ns": round(delivered * 1e3 / mops) + next(NUMBERS) if mops else 0,
        "payload_bytes": delivered * msg,
    }
    rate = counts["counted"] * 1e3 / counts["counted_ns"] if mops else 0.0
    return counts | {"mops": rate, "failure": ""}


def bucket_end(value: int) -> int:
    """Return the last value of the bucket in which base/histogram.h counts this one."""
    shift = max(0, value.bit_length() - 7)
    return (((value >> shift) + 1) << shift) - 1


def with_histogram(one: dict[str, object]) -> dict[str, object]:
    """Return a repetition with the histogram of its percentiles, which JSON has."""
    p50, p99, longest = (round(one[name] * 1e3) for name in ("p50_us", "p99_us", "max_us"))
    samples = REPETITION_MESSAGES // 61
    buckets = [[p50, samples * 98 // 100], [p99, samples * 198 // 200 - samples * 98 // 100 + 5]]
    buckets.append([longest, samples - sum(count for _, count in buckets)])
    return one | {"latency_ns": {"count": samples, "min": p50, "max": longest, "buckets": buckets}}


def row(mode: str, msg: int, window: int, window_mode: str, mops: float | None, **changes: object) -> dict[str, object]:
    """Return a row that follows from five repetitions; without `mops`, one without figures."""
    cells: dict[str, object] = dict.fromkeys(COLUMNS)
    cells |= {
        "experiment": "msg_sweep",
        "mode": mode,
        "msg": msg,
        "window": window,
        "iters": REPETITION_MESSAGES,
        "op": "send",
    }
    cells |= {"window_mode": window_mode, "device": "vb_synthetic", "mtu": 4096, "validity": "valid", "reason": ""}
    if mops is None:
        return cells | {"validity": "n/a", "reason": f"msg {msg} > UD max 4096", "repetitions": []} | changes
    trips = {"rtt_before_ns": 110, "rtt_after_ns": 112}
    trips |= {name: changes[name] for name in trips if name in changes}
    middle = window / mops if mops else 1.0
    latency = {"p50_us": middle, "p90_us": middle, "p99_us": 1.7 * middle}
    latency |= dict.fromkeys(("p999_us", "p9999_us", "max_us"), 2 * middle)
    latency = {name: bucket_end(round(value * 1e3)) / 1e3 for name, value in latency.items()}
    repetitions = [
        repetition(mode, msg, window, window_mode, mops * factor) | trips | latency
        for factor in (0.97, 0.99, 1.0, 1.01, 1.02)
    ]
    rates = sorted(each["mops"] for each in repetitions)
    cells |= {"mops": rates[2], "gib": rates[2] * 1e6 * msg / 2**30, "mops_low": rates[0], "mops_high": rates[4]}
    cells |= {"spread": (rates[4] - rates[0]) / rates[2] if mops else 0.0}
    for name in ("posted", "completed", "delivered", "duplicated", "reordered"):
        cells[name] = sum(each[name] for each in repetitions)
    cells |= {"lost": cells["posted"] - cells["delivered"], "rtt_class": "near", "repetitions": repetitions}
    return cells | trips | latency | changes


def row_of_queue_pairs(mode: str, qps: int, mops: float, senders: int = 1) -> dict[str, object]:
    """Return a row of 64 B at window 64 whose messages come from `qps` queue pairs."""
    cells = row(mode, 64, 64, "credit", mops)
    counts = {"receiver_qps": qps if mode == "RC" else 1, "qps_used": qps}
    cell = f"{mode} send 64 B window 64 credit, {qps} queue pairs"
    cell += f" of {senders} senders" if senders > 1 else ""
    cells["repetitions"] = [each | counts | {"cell": cell} for each in cells["repetitions"]]
    return cells | counts | {"experiment": "qp_sweep", "qps": qps, "senders": senders}


def rows() -> list[dict[str, object]]:
    """RC leads at window 64. At window 4 UD leads with local windows only."""
    table = []
    for window in (4, 64):
        for window_mode in ("local", "credit"):
            for msg in SIZES:
                rc = (9.0 if window == 4 else 16.0) / (1 + msg / 4000) * (1.0 if window_mode == "local" else 0.93)
                lead = 0.9 if window == 64 else 1.3 if window_mode == "local" else 1.0
                table.append(row("RC", msg, window, window_mode, rc))
                table.append(row("UD", msg, window, window_mode, None if msg > 4096 else rc * lead))
    return table


def csv_text(table: list[dict[str, object]] | None = None, environment: dict[str, str] | None = None) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for cells in rows() if table is None else table:
        writer.writerow(cells | {"repetitions": json.dumps(cells["repetitions"])})
    return out.getvalue() + "".join(f"# {key}: {text}\n" for key, text in (environment or ENVIRONMENT).items())


def json_text(table: list[dict[str, object]] | None = None) -> str:
    table = rows() if table is None else table
    table = [cells | {"repetitions": [with_histogram(one) for one in cells["repetitions"]]} for cells in table]
    return json.dumps({"environment": ENVIRONMENT, "rows": table})


def table_text(table: list[dict[str, object]], environment: dict[str, str]) -> str:
    """Return rows of any experiment as CSV, labelled as synthetic."""
    out = io.StringIO()
    writer = csv.DictWriter(out, table[0])
    writer.writeheader()
    writer.writerows(table)
    notes = environment | {"note": "SYNTHETIC data made by a test"}
    return out.getvalue() + "".join(f"# {key}: {text}\n" for key, text in notes.items())
