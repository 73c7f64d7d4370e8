# SPDX-License-Identifier: Apache-2.0
"""Judges the published claims about the key-value store from the rows of one table.

JUDGES has one function for each claim, by the claim's id in bench/published/claims.csv. A
difference counts if the intervals do not overlap. The published table has no size with both
protocols, so it cannot show which one is faster.
"""

from __future__ import annotations

from collections.abc import Callable

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.compare import interval_text, ratio
from report.kv.rows import GIGABYTES, RATE, Row, Source, parameter, size_text

LARGE = 64 << 10  # "large messages"
SIZES_MIN = 3
HIGH = 1.25  # "high overhead": rendezvous has this many times the rate of eager
SAME = 1.05
STABLE_WARMUP = 50
STEADIER = 1.5

Judge = Callable[[Source], Finding]
BOTH = "needs both protocols at {} and more sizes of SET and of GET (bench kv --proto eager,rndv)"


def rendezvous_is_faster(source: Source) -> Finding:
    pairs = source.pairs()
    evidence = [_pair_line(*pair) for pair in pairs] + source.left_out()
    if not _enough(pairs):
        return Finding(NOT_TESTABLE, _needs(source, BOTH.format(SIZES_MIN)), evidence)
    slower = [other for eager, other in pairs if _faster(other, eager) is False]
    faster = [other for eager, other in pairs if _faster(other, eager) is True]
    because = (
        f"faster in {len(faster)} of {len(pairs)} cells ({_sizes(faster)}), slower in {len(slower)} ({_sizes(slower)})"
    )
    if slower:
        return Finding(CONTRADICTED, because, evidence)
    if len(faster) < len(pairs):
        return Finding(NOT_TESTABLE, f"{because}; in the other cells the intervals are too wide to decide", evidence)
    return Finding(SUPPORTED, because, evidence)


def rendezvous_scales_better(source: Source) -> Finding:
    """Rendezvous leads eager by more at larger sizes."""
    pairs = source.pairs()
    evidence = [_pair_line(*pair) for pair in pairs] + source.left_out()
    if not _enough(pairs):
        return Finding(NOT_TESTABLE, _needs(source, BOTH.format(SIZES_MIN)), evidence)
    verdicts, parts = [], []
    for load in dict.fromkeys(other.load for _, other in pairs):
        of_load = [pair for pair in pairs if pair[1].load == load]
        if len(of_load) < SIZES_MIN:
            continue
        (first, last), ends = (
            (of_load[0], of_load[-1]),
            [ratio(of_load[0][1], of_load[0][0], RATE), ratio(of_load[-1][1], of_load[-1][0], RATE)],
        )
        verdicts.append(True if ends[1][0] > ends[0][2] else False if ends[1][2] < ends[0][0] * SAME else None)
        parts.append(
            f"{load[0]} window {load[1]}: {ends[0][1]:.2f} times eager at {size_text(first[1].size)}, "
            f"{ends[1][1]:.2f} at {size_text(last[1].size)}"
        )
    because = "; ".join(parts)
    if False in verdicts:
        return Finding(CONTRADICTED, because, evidence)
    if None in verdicts:
        return Finding(NOT_TESTABLE, f"{because}; the intervals are too wide to decide", evidence)
    return Finding(SUPPORTED, because, evidence)


def eager_costs_much_when_large(source: Source) -> Finding:
    pairs = [pair for pair in source.pairs() if pair[0].size >= LARGE]
    evidence = [_pair_line(*pair) for pair in pairs] + source.left_out()
    if {eager.op for eager, _ in pairs} != {"SET", "GET"}:
        because = f"needs both protocols at {size_text(LARGE)} and more"
        return Finding(NOT_TESTABLE, _needs(source, because), evidence)
    ratios = [ratio(pair[1], pair[0], RATE) for pair in pairs]
    middles = [middle for _, middle, _ in ratios]
    because = (
        f"from {size_text(LARGE)} on rendezvous has {min(middles):.2f} to {max(middles):.2f} times the rate of eager"
    )
    less = [other for (_, other), (_, _, high) in zip(pairs, ratios, strict=True) if high < HIGH]
    if less:
        return Finding(CONTRADICTED, f"{because}: less than {HIGH:g} times at {_sizes(less)}", evidence)
    if any(low < HIGH for low, _, _ in ratios):
        return Finding(NOT_TESTABLE, f"{because}; the intervals are too wide to decide", evidence)
    return Finding(SUPPORTED, because, evidence)


def less_depth_may_be_slower(source: Source) -> Finding:
    groups, evidence = _sweep(source, "depth")
    if not groups:
        return Finding(NOT_TESTABLE, "needs a sweep of the depth (bench kv --sensitivity depth)", evidence)
    falls, undecided = [], 0
    for rows in groups:
        best = max(rows, key=lambda row: row.values[RATE])
        less = [row for row in rows if parameter(row) < parameter(best)]
        verdicts = [_faster(best, row) for row in less]
        if any(verdict is True for verdict in verdicts):
            falls.append(min(row.values[RATE] for row in less) / best.values[RATE])
        undecided += any(verdict is None for verdict in verdicts) and not any(verdict is True for verdict in verdicts)
    if falls:
        because = (
            f"a smaller depth is slower in {len(falls)} of {len(groups)} cells, down to {100 * min(falls):.0f} % "
            "of the rate"
        )
        return Finding(SUPPORTED, because, evidence)
    if undecided:
        return Finding(
            NOT_TESTABLE,
            f"no significant fall in {len(groups)} cells; in {undecided} the intervals are too wide",
            evidence,
        )
    return Finding(CONTRADICTED, f"no measured depth lowers the rate in any of {len(groups)} cells", evidence)


def short_warmup_shows(source: Source) -> Finding:
    groups, evidence = _sweep(source, "warmup")
    cells = []
    for rows in groups:
        stable = next((row for row in rows if parameter(row) == STABLE_WARMUP), None)
        shorter = [row for row in rows if parameter(row) < STABLE_WARMUP]
        longer = [row for row in rows if parameter(row) > STABLE_WARMUP]
        if stable is not None and shorter and longer:
            cells.append((stable, shorter, longer))
    if not cells:
        return Finding(
            NOT_TESTABLE, "needs a sweep of the warm-up below and above 50 (bench kv --sensitivity warmup)", evidence
        )
    early = sum(any(_faster(stable, row) or _faster(row, stable) for row in shorter) for stable, shorter, _ in cells)
    late = sum(any(_faster(stable, row) or _faster(row, stable) for row in longer) for stable, _, longer in cells)
    because = (
        f"a warm-up of less than {STABLE_WARMUP} changes the rate in {early} of {len(cells)} cells, a longer one "
        f"in {late}"
    )
    if early > late and early * 2 >= len(cells):
        return Finding(SUPPORTED, because, evidence)
    return Finding(CONTRADICTED, because, evidence)


def iterations_steady(source: Source) -> Finding:
    """Repetitions of many operations agree better than those of few."""
    groups, evidence = _sweep(source, "iters")
    ends = [
        (rows[0], rows[-1])
        for rows in groups
        if parameter(rows[-1]) >= 10 * parameter(rows[0]) and rows[0].get("spread") is not None
    ]
    if not ends:
        return Finding(
            NOT_TESTABLE, "needs a sweep of the iterations over a factor of 10 (bench kv --sensitivity iters)", evidence
        )
    steadier = sum(few.values["spread"] > STEADIER * many.values["spread"] for few, many in ends)
    few, many = (sorted(row.values["spread"] for row in side)[len(ends) // 2] for side in zip(*ends, strict=True))
    because = (
        f"the spread of repetitions is {100 * few:.0f} % of their median with the fewest and {100 * many:.0f} % "
        "with the most, in the "
        f"middle cell; with the most it is clearly less in {steadier} of {len(ends)} cells"
    )
    return Finding(SUPPORTED if steadier * 2 > len(ends) else CONTRADICTED, because, evidence)


JUDGES: dict[str, Judge] = {
    "S2.1": rendezvous_is_faster,
    "S2.2": rendezvous_scales_better,
    "S2.3": eager_costs_much_when_large,
    "S2.4": less_depth_may_be_slower,
    "S2.5": short_warmup_shows,
    "S2.6": iterations_steady,
}


def _needs(source: Source, because: str) -> str:
    """Add the first pair that may not be compared, if there is one."""
    return "; ".join([because, *source.left_out()[:1]])


def _enough(pairs: list[tuple[Row, Row]]) -> bool:
    return all(len({eager.size for eager, _ in pairs if eager.op == op}) >= SIZES_MIN for op in ("SET", "GET"))


def _sweep(source: Source, varied: str) -> tuple[list[list[Row]], list[str]]:
    groups = [rows for rows in source.sweep(varied).values() if len(rows) > 1]
    return groups, [_line(row) for rows in groups for row in rows]


def _faster(one: Row, other: Row) -> bool | None:
    """Return True or False if the intervals do not overlap, None if they do."""
    (low, _, high), (other_low, _, other_high) = one.interval(RATE), other.interval(RATE)
    if low > other_high:
        return True
    return False if high < SAME * other_low else None


def _sizes(rows: list[Row]) -> str:
    """Return the sizes of each operation in words; many sizes become a range."""
    parts = []
    for op in ("SET", "GET"):
        sizes = sorted({row.size for row in rows if row.op == op})
        if sizes:
            parts.append(f"{op} {size_text(sizes[0])}" + (f" to {size_text(sizes[-1])}" if len(sizes) > 1 else ""))
    return ", ".join(parts) or "none"


def _pair_line(eager: Row, other: Row) -> str:
    bounds = interval_text(ratio(other, eager, RATE))
    return f"{_line(other)}; eager {eager.values[GIGABYTES]:.4g}; ratio {bounds}"


def _line(row: Row) -> str:
    low, middle, high = row.interval(GIGABYTES)
    interval = f" [{low:.4g}, {high:.4g}]" if low < high else ""
    return f"{row.name}: {middle:.4g}{interval} GB/s"
