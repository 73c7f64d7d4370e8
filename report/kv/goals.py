# SPDX-License-Identifier: Apache-2.0
"""Judges the goals of our own store from the rows of one table, in the way of published claims.

- auto is within 10 % of the better of eager and rendezvous, at every size that has all three;
- stalled clients do not raise the P99 of the others to 5 times the P99 without them.

A goal is met in a cell if the whole interval is on its side, missed if the whole interval is on the
other side, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Claim, Finding, Judgement
from report.compare import drift, unique_by
from report.kv.rows import AUTO, EAGER, RATE, RENDEZVOUS, TIMES_ALONE, Row, Source

AUTO_MIN = 0.9
STALLED_MAX = 5.0
BY_WRITE = f"{RENDEZVOUS} by write"
REPS_MIN = 3  # the interval of fewer repetitions means nothing

Goal = tuple[Claim, Callable[[Source], Finding]]


def judge_all(source: Source) -> list[Judgement]:
    return [Judgement(claim, judge(source)) for claim, judge in GOALS]


def auto_ratios(source: Source) -> list[tuple[Row, tuple[float, float, float]]]:
    """Return for each cell of auto its rate over the better one's: least, middle, greatest."""
    ways = (EAGER, RENDEZVOUS, BY_WRITE, AUTO)
    found_once = {way: unique_by(source.drawn(way), lambda row: row.cell) for way in ways}
    others = {way: {at: row for at, row in rows.items() if row.usable} for way, rows in found_once.items()}
    found = []
    for at, row in others[AUTO].items():
        by_write = row.op == "SET" and (row.words["form"] == "write" or at not in others[RENDEZVOUS])
        ways_of_both = (EAGER, BY_WRITE if by_write else RENDEZVOUS)
        both = [others[way][at] for way in ways_of_both if at in others[way]]
        if len(both) < 2 or drift(row, *both):
            continue
        if any(each.values.get("reps", REPS_MIN) < REPS_MIN for each in (row, *both)):
            continue
        low, middle, high = row.interval(RATE)
        best_low, best, best_high = max((other.interval(RATE) for other in both), key=lambda interval: interval[1])
        found.append((row, (low / best_high, middle / best, high / best_low)))
    return found


def auto_is_no_worse(source: Source) -> Finding:
    ratios = auto_ratios(source)
    if not ratios:
        missing = (
            f"needs eager, rendezvous and auto at the same sizes, {REPS_MIN} repetitions each (bench kv --proto "
            "eager,rndv,auto)"
        )
        return Finding(NOT_TESTABLE, missing)
    evidence = [
        f"{row.name}: {middle:.2f} [{low:.2f}, {high:.2f}] of the better one" for row, (low, middle, high) in ratios
    ]
    below = [row for row, (_, _, high) in ratios if high < AUTO_MIN]
    opened = [row for row, (low, _, high) in ratios if low < AUTO_MIN <= high]
    worst = min(ratios, key=lambda each: each[1][1])
    because = (
        f"{len(ratios) - len(below) - len(opened)} of {len(ratios)} cells meet the goal; the worst is "
        f"{worst[0].name} with {worst[1][1]:.2f}"
    )
    return _finding(because, below, opened, evidence)


def stalled_cost_nothing(source: Source) -> Finding:
    rows = [
        row
        for row in source.rows
        if row.varied == "stalled" and row.get(TIMES_ALONE) is not None and row.validity != "invalid"
        if row.values.get("reps", REPS_MIN) >= REPS_MIN
    ]
    if not rows:
        return Finding(
            NOT_TESTABLE,
            f"needs rows with and without stalled clients, {REPS_MIN} repetitions each (bench kv --stalled 1)",
        )
    intervals = [row.interval(TIMES_ALONE) for row in rows]
    evidence = [
        f"{row.name}: {middle:.2f} [{low:.2f}, {high:.2f}]"
        for row, (low, middle, high) in zip(rows, intervals, strict=True)
    ]
    above = [row for row, (low, _, _) in zip(rows, intervals, strict=True) if low >= STALLED_MAX]
    opened = [row for row, (low, _, high) in zip(rows, intervals, strict=True) if low < STALLED_MAX <= high]
    worst = max(rows, key=lambda row: row.values[TIMES_ALONE])
    because = (
        f"{len(rows) - len(above) - len(opened)} of {len(rows)} cells meet the goal; the worst is {worst.name} with "
        f"{worst.values[TIMES_ALONE]:.2f} times"
    )
    return _finding(because, above, opened, evidence)


def _finding(because: str, broken: list[Row], opened: list[Row], evidence: list[str]) -> Finding:
    if broken:
        return Finding(CONTRADICTED, f"{because}; {len(broken)} miss it", evidence)
    if opened:
        return Finding(
            NOT_TESTABLE, f"{because}; in {len(opened)} cells the intervals are too wide to decide", evidence
        )
    return Finding(SUPPORTED, because, evidence)


GOALS: tuple[Goal, ...] = (
    (
        Claim(
            "auto",
            "verbena",
            "auto is within 10 % of the better one of eager and rendezvous at every size",
            "all three at every size",
        ),
        auto_is_no_worse,
    ),
    (
        Claim(
            "stalled",
            "verbena",
            "Clients that are stalled in a rendezvous do not raise the P99 of the others to 5 times as long or more",
            "both, interleaved",
        ),
        stalled_cost_nothing,
    ),
)
