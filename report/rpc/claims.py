# SPDX-License-Identifier: Apache-2.0
"""Judges the published claims about calls over RDMA from the rows of one table.

JUDGES has one function for each claim, by the claim's id in bench/published/claims.csv. A claim
that a behaviour helps is judged from rows that `verbena bench rpc --ablate` ran in turn with and
without it. A difference counts if the intervals do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.compare import TWICE, drift, repeated, unique_by
from report.rpc.rows import Row, Source

RATE, LARGE, FEW = 1.5e6, 256 << 10, 10
SATURATED = 0.95  # share of the best rate of that size
SAME = 1.05  # rates or latencies whose ratio is smaller than this count as equal
MUCH = 3.0  # "much more"
KIB_PER_CONNECTION, KIB_TOLERANCE = 10 * 256, 0.1
INLINE_MAX = 256

Judge = Callable[[Source], Finding]


def rate_of_small_calls(source: Source) -> Finding:
    rows = [
        row for row in source.rows if (row.transport, row.mode, row.size) == ("rdma", "sink", 128) and not row.apart
    ]
    evidence = [_line(row, "qps", "per second") for row in rows]
    most = next((row for row in rows if row.concurrency == 256), None)
    if most is None:
        return Finding(NOT_TESTABLE, "no row of 128 B with 256 in flight over RDMA", evidence)
    if not most.usable:
        because = f"the row of this rate {'is' if most.is_bare else 'cannot be true:'} "
        because += most.fault if most.is_bare else most.reason
        if source.published:
            because += (
                f"; by its Gb/s the rate is {most.values['gigabits_per_second'] * 1e9 / 8 / most.size / 1e6:.2f} "
                "million"
            )
        return Finding(NOT_TESTABLE, because, evidence)
    if most.cell in repeated(rows, lambda row: row.cell):
        return Finding(NOT_TESTABLE, f"{TWICE}: {most.name}", evidence)
    low, middle, high = most.interval("qps")
    because = f"{middle / 1e6:.2f} million per second [{low / 1e6:.2f}, {high / 1e6:.2f}] with 256 in flight"
    if middle >= RATE:
        return Finding(SUPPORTED, because, evidence)
    if high >= RATE:
        return Finding(NOT_TESTABLE, f"{because}: the interval is too wide to decide", evidence)
    if source.kind == "hardware":
        return Finding(CONTRADICTED, because, evidence)
    return Finding(
        NOT_TESTABLE,
        f"{because}; the claim is about the publishers' hardware adapter, and this device is not hardware",
        evidence,
    )


def few_saturate(source: Source) -> Finding:
    found = unique_by(source.drawn("rdma", "sink"), lambda row: row.cell).values()
    rows = [row for row in found if row.usable and row.size >= LARGE]
    evidence = [_line(row, "gigabits_per_second", "Gb/s") for row in rows]
    failing, undecided, sizes = [], [], 0
    for size in sorted({row.size for row in rows}):
        few = [row for row in rows if row.size == size and row.concurrency < FEW]
        many = [row for row in rows if row.size == size and row.concurrency >= FEW]
        if not few or not many:
            continue
        if moved := drift(*few, *many):
            evidence.append(f"{_size(size)}: left out ({moved})")
            continue
        sizes += 1
        best = max(few + many, key=lambda row: row.values["qps"])
        best_low, best_rate, _ = best.interval("qps")
        share = max(row.values["qps"] for row in few) / best_rate
        if max(row.interval("qps")[2] for row in few) < SATURATED * best_low:
            failing.append(f"{_size(size)} has {100 * share:.0f} % of its best rate")
        elif share < SATURATED:
            undecided.append(_size(size))
    if not sizes:
        return Finding(NOT_TESTABLE, "no size of 256K and more with rows below and above 10 in flight", evidence)
    if failing:
        return Finding(CONTRADICTED, f"with fewer than {FEW} in flight {' and '.join(failing)}", evidence)
    if undecided:
        return Finding(NOT_TESTABLE, f"at {', '.join(undecided)} the intervals are too wide to decide", evidence)
    return Finding(
        SUPPORTED,
        f"fewer than {FEW} in flight reach {100 * SATURATED:.0f} % of the best rate at {sizes} sizes",
        evidence,
    )


def registration_costs_more(source: Source) -> Finding:
    """Use the costs that `bench rpc --ablate` writes into the environment."""
    costs = []
    for key, text in source.environment.items():
        found = re.match(r"([\d.]+) us to register .* ([\d.]+) us to copy", text)
        if key.startswith("registration ") and found and float(found[2]) > 0:
            costs.append((key.removeprefix("registration "), float(found[1]), float(found[2])))
    evidence = [
        f"{size}: {register:.3g} us to register and deregister, {copy:.3g} us to copy" for size, register, copy in costs
    ]
    if len(costs) < 2:
        return Finding(NOT_TESTABLE, "needs both costs by size (bench rpc --ablate pool)", evidence)
    if doubt := source.doubt("qps"):
        return Finding(NOT_TESTABLE, f"the costs by size count only beside usable rows: {doubt}", evidence)
    less = [size for size, register, copy in costs if register < MUCH * copy]
    kind = (
        ""
        if source.kind == "hardware"
        else "; this device registers without pinning, which is the expensive part on an adapter"
    )
    if less:
        return Finding(CONTRADICTED, f"not {MUCH:g} times as much at {', '.join(less)}{kind}", evidence)
    return Finding(SUPPORTED, f"at least {MUCH:g} times as much at all {len(costs)} sizes{kind}", evidence)


def coalescing_improves(source: Source) -> Finding:
    finding = _better(
        source,
        "coalescing",
        lambda row: row.size <= INLINE_MAX and row.concurrency > 1,
        "small sizes with many in flight",
    )
    pairs = _pairs(source, "coalescing", lambda row: row.size <= INLINE_MAX)
    finding = replace(finding, evidence=_pair_lines(pairs) + source.left_out("coalescing"))
    if finding.verdict != SUPPORTED:
        return finding
    later = [on for on, off in pairs if on.interval("p99_us")[0] > SAME * off.interval("p99_us")[2]]
    undecided = [on for on, off in pairs if on.values["p99_us"] > SAME * off.values["p99_us"]]
    if later:
        return replace(finding, verdict=CONTRADICTED, because=f"{finding.because}, but P99 is later at {_names(later)}")
    if undecided:
        because = f"{finding.because}; whether P99 is later at {_names(undecided)} the intervals are too wide to decide"
        return replace(finding, verdict=NOT_TESTABLE, because=because)
    return replace(finding, because=f"{finding.because}, and P99 is nowhere more than 5 % later")


def inline_is_better(source: Source) -> Finding:
    return _better(source, "inline", lambda row: row.size < INLINE_MAX, "the sizes below 256 B")


def send_queue_overlaps(source: Source) -> Finding:
    finding = _better(source, "send-queue", lambda row: row.size >= LARGE, "the sizes of 256K and more")
    if finding.verdict != SUPPORTED or source.kind == "hardware":
        return finding
    return Finding(
        SUPPORTED,
        f"{finding.because}; on one host there is no link to saturate, so that part is not tested",
        finding.evidence,
    )


def memory_of_a_connection(source: Source) -> Finding:
    name = "pinned_kib_per_connection"
    found = [row for row in source.rows if row.get(name) and row.words["recv_mode"] == "per_connection"]
    evidence = [f"{row.name}: {row.values[name]:.0f} KiB" + ("" if row.usable else f" ({row.fault})") for row in found]
    rows = [row for row in found if row.usable]
    if not rows:
        return Finding(
            NOT_TESTABLE, "needs rows in the published mode (bench rpc --recv-mode per_connection)", evidence
        )
    values = sorted(row.values[name] for row in rows)
    because = f"with a block of buffers for each connection it pins {values[0]:.0f} to {values[-1]:.0f} KiB"
    near = all(abs(value - KIB_PER_CONNECTION) <= KIB_TOLERANCE * KIB_PER_CONNECTION for value in values)
    return Finding(SUPPORTED if near else CONTRADICTED, because, evidence)


def pool_of_connections_improves(source: Source) -> Finding:
    return _better(source, "connection-pool", lambda _: True, "what was run")


JUDGES: dict[str, Judge] = {
    "S4.1": rate_of_small_calls,
    "S4.2": few_saturate,
    "S4.3": registration_costs_more,
    "S4.4": coalescing_improves,
    "S4.5": inline_is_better,
    "S4.6": send_queue_overlaps,
    "S4.7": memory_of_a_connection,
    "S4.8": pool_of_connections_improves,
}


def _better(source: Source, ablation: str, counts: Callable[[Row], bool], where: str) -> Finding:
    pairs = _pairs(source, ablation, counts)
    left_out = source.left_out(ablation)
    evidence = _pair_lines(pairs) + left_out
    if not pairs:
        because = f"needs rows with and without it (bench rpc --ablate {ablation})"
        return Finding(NOT_TESTABLE, f"{because}; {left_out[0]}" if left_out else because, evidence)
    verdicts = [_faster(on, off) for on, off in pairs]
    ratios = sorted(on.values["qps"] / off.values["qps"] for on, off in pairs)
    because = f"at {where} the rate with it is {ratios[0]:.2f} to {ratios[-1]:.2f} times the rate without"
    if all(verdict is True for verdict in verdicts):
        return Finding(SUPPORTED, because, evidence)
    worse = [on for (on, _), verdict in zip(pairs, verdicts, strict=True) if verdict is False]
    if worse:
        return Finding(CONTRADICTED, f"{because}; not faster at {_names(worse)}", evidence)
    return Finding(
        NOT_TESTABLE, f"{because}; in {verdicts.count(None)} cells the intervals are too wide to decide", evidence
    )


def _pairs(source: Source, ablation: str, counts: Callable[[Row], bool]) -> list[tuple[Row, Row]]:
    """Return pairs over RDMA, which the claims are about."""
    return [pair for pair in source.pairs(ablation) if counts(pair[0]) and pair[0].transport == "rdma"]


def _faster(on: Row, off: Row) -> bool | None:
    """Return True, False (slower, or equal within narrow intervals) or None (undecided)."""
    (low, _, high), (off_low, _, off_high) = on.interval("qps"), off.interval("qps")
    if low > off_high:
        return True
    return False if high < SAME * off_low else None


def _pair_lines(pairs: list[tuple[Row, Row]]) -> list[str]:
    def numbers(row: Row) -> str:
        return f"{_number(row, 'qps')} per second" + (f", P99 {_number(row, 'p99_us')} us" if row.get("p99_us") else "")

    return [f"{on.name}: {numbers(on)}; without {numbers(off)}" for on, off in pairs]


def _names(rows: list[Row]) -> str:
    return ", ".join(f"{row.words['request_size']} x {row.concurrency}" for row in rows)


def _size(size: int) -> str:
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


def _line(row: Row, column: str, unit: str) -> str:
    if row.get(column) is None:
        return f"{row.name}: {row.validity} ({row.reason})"
    mark = "" if row.usable else f" ({row.fault})"
    return f"{row.name}: {_number(row, column)} {unit}{mark}"


def _number(row: Row, column: str) -> str:
    low, middle, high = row.interval(column)
    return f"{middle:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low < high else "")
