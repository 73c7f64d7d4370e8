# SPDX-License-Identifier: Apache-2.0
"""Judges the published claims about RC and UD from the rows of one table.

JUDGES has one function for each claim, by the claim's id in bench/published/claims.csv. A verdict
is "supported", "contradicted" or "not testable". A statement about one cell holds, fails or is
undecided, by the range of UD/RC. A claim about all cells is contradicted if it fails in one, and
supported if it holds in all cells that can be tested and these are enough. The published programs
use local windows, so local rows give the verdict; credit rows are judged separately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding, Statement
from report.compare import interval_text
from report.rcud.compare import Comparison, other_port, queue_pairs, rc_and_ud, window_modes
from report.rcud.headers import GRH, RC_SEND, UD_SEND
from report.rcud.rows import Index, Row, Source
from report.tables import digits

SIGNIFICANT = 1.05  # "significantly faster" is a lead of at least 5 %
NEARLY_IDENTICAL = 1.10  # "nearly identical" is within 10 %
SMALL_MAX, LARGE_MIN = 1024, 4096  # bytes
MANY_MIN = 100  # queue pairs of "high concurrency"
SIZES_MIN = 3  # a claim about "all sizes" is not supported by fewer


Holds = Callable[[Comparison], "bool | None"]
Judge = Callable[[Source, str], Finding]


def ud_faster_at_window_4(source: Source, window_mode: str) -> Finding:
    return _everywhere(
        _cells(source, window_mode, {4}), _at_least(SIGNIFICANT), "UD at least 5 % ahead", sizes_min=SIZES_MIN
    )


def identical_small_at_window_64(source: Source, window_mode: str) -> Finding:
    def holds(cell: Comparison) -> bool | None:
        if cell.ratio_low >= 1 / NEARLY_IDENTICAL and cell.ratio_high <= NEARLY_IDENTICAL:
            return True
        return False if cell.ratio_high < 1 / NEARLY_IDENTICAL or cell.ratio_low > NEARLY_IDENTICAL else None

    cells = [cell for cell in _cells(source, window_mode, {64}) if cell.msg <= SMALL_MAX]
    finding = _everywhere(cells, holds, "rates within 10 % of each other", sizes_min=SIZES_MIN)
    note = "; the 3.1 to 3.3 Mops are those of the publishers' device and not required of another one"
    return finding if source.published else Finding(finding.verdict, finding.because + note, finding.evidence)


def ud_leads_at_8192_window_64(source: Source, window_mode: str) -> Finding:
    index = Index.of(source.single)
    rc, ud, segmented = (index.get(mode, 8192, 64, window_mode) for mode in ("RC", "UD", "UD-seg"))
    evidence = [describe(row) for row in (rc, ud, segmented) if row]
    if source.published and rc and rc.gib is not None:
        because = (
            f"the table itself has RC at {rc.gib:.2f} GiB/s, not 16.78, and UD's 25.76 cannot be true: "
            f"{ud.reason if ud else 'no row'}"
        )
        return Finding(CONTRADICTED, because, evidence)
    if ud and ud.get("posted") and ud.get("delivered") == 0:
        return Finding(CONTRADICTED, f"UD posted {ud.count('posted')} messages of 8192 B and none arrived", evidence)
    cells = [cell for cell in _cells(source, window_mode, {64}) if cell.msg == 8192]
    if not cells or cells[0].obstacle:
        because = "no rows of 8192 B at window 64" if not cells else cells[0].obstacle
        if segmented and segmented.usable:
            because += "; UD-seg is our own segmentation above UD, and the claim is not about that"
        return Finding(NOT_TESTABLE, because, evidence)
    return _everywhere(cells, _at_least(SIGNIFICANT), "UD at least 5 % ahead")


def ud_ahead_when_large(source: Source, window_mode: str) -> Finding:
    cells = [cell for cell in _cells(source, window_mode, {4, 64}) if cell.msg >= LARGE_MIN]
    return _everywhere(cells, _at_least(1.0), "UD ahead", windows_needed=(4, 64))


def rc_never_exceeds_ud(source: Source, window_mode: str) -> Finding:
    return _everywhere(
        _cells(source, window_mode, {64}), _at_least(1.0), "UD at least level with RC", sizes_min=SIZES_MIN
    )


def ud_ideal_for_small(source: Source, window_mode: str) -> Finding:
    cells = [cell for cell in _cells(source, window_mode, {4, 64}) if cell.msg <= SMALL_MAX]
    return _everywhere(cells, _at_least(1.0), "UD ahead on small messages", windows_needed=(4, 64))


def ud_ideal_for_many(source: Source) -> Finding:
    """Compare one queue pair of UD with as many of RC as there are senders' queue pairs."""
    pairs = [(qps, cell) for qps, cell in queue_pairs(source) if qps >= MANY_MIN]
    tested = [(qps, cell, _at_least(1.0)(cell)) for qps, cell in pairs if not cell.obstacle]
    evidence = [f"{qps} queue pairs, {_cell_line(cell, holds)}, {cell.window_mode}" for qps, cell, holds in tested]
    evidence += [f"{qps} queue pairs: left out ({cell.obstacle})" for qps, cell in pairs if cell.obstacle]
    if not tested:
        return Finding(NOT_TESTABLE, f"needs a sweep over queue pairs (bench rcud --qps 1,{MANY_MIN},1000)", evidence)
    most = max(qps for qps, _, _ in tested)
    at_most = sorted(cell.ratio for qps, cell, _ in tested if qps == most)
    because = f"with {most} queue pairs of the senders UD/RC is {at_most[0]:.2f} to {at_most[-1]:.2f}"
    if failing := sorted({qps for qps, _, holds in tested if holds is False}):
        return Finding(CONTRADICTED, f"{because}; RC is ahead with {', '.join(map(str, failing))}", evidence)
    if any(holds is None for _, _, holds in tested):
        return Finding(NOT_TESTABLE, f"{because}; the intervals are too wide to decide", evidence)
    if most < 10 * MANY_MIN:
        return Finding(NOT_TESTABLE, f"{because}: too few queue pairs for a claim about many", evidence)
    return Finding(SUPPORTED, because, evidence)


def rc_trades_performance(source: Source, window_mode: str) -> Finding:
    cells = _cells(source, window_mode, {4, 64})
    return _everywhere(cells, _at_least(1.0), "RC behind UD", sizes_min=SIZES_MIN, windows_needed=(4, 64))


def ud_faster_without_acknowledgements(source: Source) -> Finding:
    """UD's lead must vanish when both transports wait for the receiver."""
    leads = {(cell.msg, cell.window, cell.window_mode): cell for cell in rc_and_ud(source) if not cell.obstacle}
    evidence = []
    led = kept = 0
    for (msg, window, mode), local in leads.items():
        credit = leads.get((msg, window, "credit"))
        if credit and any(other_port(*rows) for rows in ((local.rc, credit.rc), (local.ud, credit.ud))):
            continue
        if mode == "local" and credit and local.winner == "UD":
            led += 1
            kept += credit.winner == "UD"
            with_local, with_credit = interval_text(local.bounds), interval_text(credit.bounds)
            evidence.append(
                f"{msg} B, window {window}: UD/RC {with_local} with local windows, {with_credit} with credit windows"
            )
    if not window_modes(source):
        return Finding(NOT_TESTABLE, "needs rows in both window modes", evidence)
    if led == 0:
        because = "in no cell with both window modes does UD lead, so there is no lead to explain"
        return Finding(CONTRADICTED, because, evidence)
    because = f"UD leads in {led} cells with local windows, and in {kept} of them when both wait for the receiver"
    # A lead that ends when both wait for the receiver came from not waiting.
    return Finding(SUPPORTED if kept == 0 else NOT_TESTABLE if kept < led else CONTRADICTED, because, evidence)


def ud_has_a_smaller_header(_: Source) -> Finding:
    extra = UD_SEND.transport - RC_SEND.transport
    because = (
        f"the header is not smaller: a UD SEND carries {extra} bytes more than an RC SEND, and {GRH} in the "
        "receive buffer"
    )
    evidence = [f"transport headers per packet: RC SEND {RC_SEND.transport} B, UD SEND {UD_SEND.transport} B"]
    return Finding(CONTRADICTED, because, evidence)


def _in_each_mode(judge: Judge) -> Callable[[Source], Finding]:
    """Return a judge of local rows, which adds its finding from credit rows as a statement."""

    def both(source: Source) -> Finding:
        modes = {row.window_mode for row in source.single}
        finding = judge(source, "local" if "local" in modes else "credit")
        if modes != {"local", "credit"}:
            return finding
        return replace(finding, statements=[Statement("With credit windows", judge(source, "credit"))])

    return both


JUDGES: dict[str, Callable[[Source], Finding]] = {
    "S1.1": _in_each_mode(ud_faster_at_window_4),
    "S1.2": _in_each_mode(identical_small_at_window_64),
    "S1.3": _in_each_mode(ud_leads_at_8192_window_64),
    "S1.4": _in_each_mode(ud_ahead_when_large),
    "S1.5": _in_each_mode(rc_never_exceeds_ud),
    "S1.6a": _in_each_mode(ud_ideal_for_small),
    "S1.6b": ud_ideal_for_many,
    "S1.6c": _in_each_mode(rc_trades_performance),
    "S1.7a": ud_faster_without_acknowledgements,
    "S1.7b": ud_has_a_smaller_header,
}


def describe(row: Row) -> str:
    """Return a row with its numbers in one line."""
    name = f"{row.mode} {row.msg} B, window {row.window}"
    if row.mops is None or row.gib is None:
        return f"{name}: {row.validity} ({row.reason or 'no figures'})"
    mark = "" if row.usable else f" ({row.fault})"
    return f"{name}: {digits(row.mops)} Mops, {row.gib:.4g} GiB/s{mark}"


def _cells(source: Source, window_mode: str, windows: set[int]) -> list[Comparison]:
    return [cell for cell in rc_and_ud(source) if cell.window_mode == window_mode and cell.window in windows]


def _at_least(lead: float) -> Holds:
    """Return a test whether UD/RC is at least `lead`; None if the intervals overlap that."""
    return lambda cell: True if cell.ratio_low >= lead else False if cell.ratio_high < lead else None


def _everywhere(
    cells: list[Comparison], holds: Holds, what: str, sizes_min: int = 1, windows_needed: tuple[int, ...] = ()
) -> Finding:
    tested = [(cell, holds(cell)) for cell in cells if not cell.obstacle]
    evidence = [_cell_line(cell, result) for cell, result in tested]
    evidence += [f"{cell.msg} B, window {cell.window}: left out ({cell.obstacle})" for cell in cells if cell.obstacle]
    count = f"{what} in {sum(result is True for _, result in tested)} of {len(tested)} cells"
    if tested:
        ratios = sorted(cell.ratio for cell, _ in tested)
        low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
        count += f" (UD/RC {low})" if low == high else f" (UD/RC {low} to {high})"
    failing = [cell for cell, result in tested if result is False]
    if failing:
        places = " and ".join(
            f"{', '.join(str(cell.msg) for cell in failing if cell.window == window)} B at window {window}"
            for window in sorted({cell.window for cell in failing})
        )
        return Finding(CONTRADICTED, f"{count}; not at {places}", evidence)
    if not tested:
        return Finding(NOT_TESTABLE, "no cell with a valid row of both", evidence)
    undecided = sum(result is None for _, result in tested)
    if undecided:
        return Finding(NOT_TESTABLE, f"{count}; in {undecided} the intervals are too wide to decide", evidence)
    missing = [str(window) for window in windows_needed if window not in {cell.window for cell, _ in tested}]
    if missing:
        return Finding(NOT_TESTABLE, f"{count}, but none could be tested at window {' and '.join(missing)}", evidence)
    if len({cell.msg for cell, _ in tested}) < sizes_min:
        return Finding(NOT_TESTABLE, f"{count}: too few sizes for a claim about many", evidence)
    left_out = len(cells) - len(tested)
    return Finding(SUPPORTED, count + (f"; {left_out} more could not be tested" if left_out else ""), evidence)


def _cell_line(cell: Comparison, result: bool | None) -> str:
    word = {True: "holds", False: "fails", None: "undecided"}[result]
    rates = ", ".join(f"{row.mode} {_rate(row)}" for row in (cell.rc, cell.ud) if row)
    return f"{cell.msg} B, window {cell.window}: {rates} Mops; UD/RC {interval_text(cell.bounds)}: {word}"


def _rate(row: Row) -> str:
    low, middle, high = map(digits, row.interval("mops"))
    return f"{middle} [{low}, {high}]"
