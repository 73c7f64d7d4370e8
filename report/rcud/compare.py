"""Compares RC with UD in each cell: which one delivered more, and whether the difference is
significant.

A comparison takes two valid rows of the same size, window, window mode and operation. The range of
its ratio UD/RC follows from the 95 % intervals of both rows. A winner is named only if the
intervals do not overlap. Rows that were measured at different core-to-core round trips are not
compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from report.rcud.rows import WINDOW_MODES, Index, Row, Source

RTT_DRIFT_MAX = 1.5  # the ratio of core-to-core round trips up to which rows are compared


@dataclass(frozen=True)
class Comparison:
    """RC and UD in one cell. The ratios may be used only if there is no obstacle."""

    msg: int
    window: int
    window_mode: str
    rc: Row | None
    ud: Row | None
    obstacle: str = ""  # why the two cannot be compared; empty if they can

    @property
    def ratio(self) -> float:
        return divide(self.ud.mops, self.rc.mops)

    @property
    def ratio_low(self) -> float:
        return divide(self.ud.low, self.rc.high)

    @property
    def ratio_high(self) -> float:
        return divide(self.ud.high, self.rc.low)

    @property
    def winner(self) -> str:
        """RC, UD, "no difference", or "n/a" where there is an obstacle."""
        if self.obstacle:
            return "n/a"
        if self.ratio_low > 1.0:
            return "UD"
        return "RC" if self.ratio_high < 1.0 else "no difference"


def digits(value: float) -> str:
    """Format with three significant digits, no exponent and no padding (0.01 is not 0.0100)."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    rounded = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return min(f"{value:.12g}", rounded, key=len) if value >= 0.001 else rounded


def divide(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf


def compare(source: Source) -> list[Comparison]:
    """Compare SEND with SEND, the only operation of UD, by window mode, window and size."""
    index = Index.of(source.rows)
    found = {
        (row.window_mode, row.window, row.msg) for row in source.rows if row.op == "send" and row.mode in ("RC", "UD")
    }
    cells = []
    for window_mode, window, msg in sorted(found, key=lambda key: (WINDOW_MODES.index(key[0]), key[1], key[2])):
        rc, ud = index.get("RC", msg, window, window_mode), index.get("UD", msg, window, window_mode)
        cells.append(Comparison(msg, window, window_mode, rc, ud, _obstacle(rc, ud)))
    return cells


def compare_queue_pairs(source: Source) -> list[tuple[int, Comparison]]:
    """Compare N queue pairs of RC with one of UD that N senders' queue pairs send to, by N.

    Only rows of one sending thread are compared, because more would also compete with each other.
    """
    rows = {(*row.cell[1:], row.qps, row.mode): row for row in source.queue_pairs if row.senders == 1}
    pairs = []
    for cell in sorted({key[:-1] for key in rows}, key=lambda key: (key[3], key[1], key[0], key[4])):
        rc, ud = rows.get((*cell, "RC")), rows.get((*cell, "UD"))
        msg, window, _, window_mode, qps = cell
        pairs.append((qps, Comparison(msg, window, window_mode, rc, ud, _obstacle(rc, ud))))
    return pairs


def _obstacle(rc: Row | None, ud: Row | None) -> str:
    for name, row in (("RC", rc), ("UD", ud)):
        if row is None:
            return f"no {name} row"
        if not row.usable:
            return f"{name} {row.validity}" + (f": {row.reason}" if row.reason else "")
        if not row.mops:
            return f"{name} delivered nothing"
    round_trips = [rtt for row in (rc, ud) for rtt in (row.rtt_before_ns, row.rtt_after_ns) if rtt]
    if round_trips and max(round_trips) > RTT_DRIFT_MAX * min(round_trips):
        return f"core-to-core round trip moved between {min(round_trips):.0f} and {max(round_trips):.0f} ns"
    return ""


def window_modes(source: Source) -> list[tuple[Row, Row]]:
    """Return pairs (local, credit) of usable rows of the same cell."""
    index = Index.of(source.rows)
    pairs = []
    for row in source.rows:
        if row.window_mode != "local":
            continue
        credit = index.get(row.mode, row.msg, row.window, "credit", row.op)
        if credit is not None and credit.usable and row.usable:
            pairs.append((row, credit))
    return pairs
