# SPDX-License-Identifier: Apache-2.0
"""Judges the published claim about connect times from the rows of connecting.

The claim is about many clients of one server (bench/published/claims.csv). Here clients are
connects under way at once, so the rows can contradict it and, with many clients, support it.
"""

from __future__ import annotations

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.compare import TWICE, drift, repeated
from report.connect.rows import Source
from report.tables import digits

CONSTANT = 1.5  # the greatest time of a constant one is at most this many times the least
SPAN = 100  # a claim about scale needs this ratio of the most to the fewest clients
CLIENTS_MIN = 3


def connect_time_constant(source: Source) -> Finding:
    ways = {way: [row for row in source.drawn(way) if row.usable and row.get("p50_us")] for way in source.ways()}
    evidence = [
        f"{row.name}: {digits(row.values['p50_us'] / 1000)} ms (P50), {digits(row.values['p99_us'] / 1000)} ms (P99)"
        for rows in ways.values()
        for row in rows
        if row.get("p99_us")
    ]
    rows = max(ways.values(), key=len, default=[])
    if not rows:
        return Finding(NOT_TESTABLE, "no valid row", evidence)
    times = [row.values["p50_us"] / 1000 for row in rows]
    because = (
        f"a connect takes {digits(min(times))} to {digits(max(times))} ms (P50) with {rows[0].clients} to "
        f"{rows[-1].clients} under way; the 15 ms were the mean of a random sleep of 10 to 20 ms"
    )
    obstacle = TWICE if repeated(rows, lambda row: row.clients) else drift(*rows)
    if obstacle:
        return Finding(NOT_TESTABLE, f"{because}, but {obstacle}", evidence)
    if max(times) > CONSTANT * min(times):
        return Finding(CONTRADICTED, because, evidence)
    if len(rows) < CLIENTS_MIN or rows[-1].clients < SPAN * rows[0].clients:
        return Finding(NOT_TESTABLE, f"{because}: too few numbers of clients for a claim about scale", evidence)
    return Finding(SUPPORTED, because, evidence)


JUDGES = {"S3.2": connect_time_constant}
