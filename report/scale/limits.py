# SPDX-License-Identifier: Apache-2.0
"""Judges the claims about how many clients one server can have.

They use the capacity model of `bench scale --capacity`, which stands in the environment of its
table, and the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.scale.evidence import line_of
from report.scale.rows import Row, Source

RATE = "messages_per_second"
TOLERANCE = 0.25
BY_THREADS, BY_MEMORY, BY_EVENTS = 30_000, 750_000, 100_000
QUEUE_PAIRS = (1000, 10_000)
NEEDS = "needs the model from the measured cost of a client of each kind (bench scale --capacity)"


def threads(source: Source) -> Finding:
    found = _number(source, "rdma, a thread for each", r"; threads: (\d+)")
    if found is None:
        return Finding(NOT_TESTABLE, _needs(source), _evidence(source))
    because = f"this machine's limit of threads allows {found} clients with a thread for each"
    near = abs(found - BY_THREADS) <= TOLERANCE * BY_THREADS
    return Finding(SUPPORTED if near else CONTRADICTED, because, _evidence(source))


def memory(source: Source) -> Finding:
    found = _number(source, "rdma", r"memory: (\d+)")
    if found is None:
        return Finding(NOT_TESTABLE, _needs(source), _evidence(source))
    because = (
        f"by measured costs this machine's memory allows {found} clients over RDMA; 8.5 KB per client and {BY_MEMORY} "
        f"by memory need {8500 * BY_MEMORY / 2**30:.3g} GiB, which the claim does not state"
    )
    near = abs(found - BY_MEMORY) <= TOLERANCE * BY_MEMORY
    return Finding(SUPPORTED if near else CONTRADICTED, because, _evidence(source))


def event_driven(source: Source) -> Finding:
    ran = _all_at_once(source, lambda row: row.engine != "threads")
    if ran and ran.clients >= BY_EVENTS:
        because = f"{ran.clients} clients of the event-driven server were connected at once"
        return Finding(SUPPORTED, because, _evidence(source))
    found = _number(source, "rdma", r"at most (\d+), bound by")
    if found is None:
        return Finding(NOT_TESTABLE, _needs(source), _evidence(source))
    because = f"by measured costs the event-driven server on this machine has room for {found} clients over RDMA"
    return Finding(SUPPORTED if found >= BY_EVENTS else CONTRADICTED, because, _evidence(source))


def queue_pairs(source: Source) -> Finding:
    low, high = QUEUE_PAIRS
    ran = _all_at_once(source, lambda row: row.transport == "rdma" and not row.shared and row.get("qps") is not None)
    if ran and ran.values["qps"] > high:
        because = f"a server had {ran.values['qps']:.0f} queue pairs at once, all in use"
        return Finding(CONTRADICTED, because, _evidence(source))
    modelled = _number(source, "rdma", r"queue pairs: (\d+)")
    if modelled is None:
        because = _doubt(source) or f"needs a row of more than {high} clients over RDMA, or bench scale --capacity"
        return Finding(NOT_TESTABLE, because, _evidence(source))
    because = f"the device allows {modelled} queue pairs"
    return Finding(SUPPORTED if low <= modelled <= high else CONTRADICTED, because, _evidence(source))


def _number(source: Source, kind: str, pattern: str) -> int | None:
    """Return a number of the capacity model; None unless every row that was measured is usable."""
    found = re.search(pattern, source.environment.get(f"capacity {kind}", ""))
    return int(found[1]) if found and not source.doubt(RATE) else None


def _needs(source: Source) -> str:
    return _doubt(source) or NEEDS


def _doubt(source: Source) -> str:
    """Why the table's capacity model supports no claim; empty if it may, or if there is none."""
    has_model = any(key.startswith("capacity ") for key in source.environment)
    doubt = source.doubt(RATE) if has_model else ""
    return f"the capacity model counts only beside usable rows: {doubt}" if doubt else ""


def _all_at_once(source: Source, wanted: Callable[[Row], bool]) -> Row | None:
    """Return the row of the most clients that all succeeded and were connected at once."""
    rows = [
        row
        for row in source.rows
        if row.usable and row.get("success_percent") == 100 and row.get("peak_clients") == row.clients and wanted(row)
    ]
    return max(rows, key=lambda row: row.clients, default=None)


def _evidence(source: Source) -> list[str]:
    lines = [
        f"{key.removeprefix('capacity ')}: {text}"
        for key, text in source.environment.items()
        if key.startswith("capacity ")
    ]
    if parts := source.environment.get("capacity_parts"):
        lines.append(f"parts: {parts}")
    if most := _all_at_once(source, lambda row: True):
        lines.append(line_of(most, "all at once"))
    return lines
