# SPDX-License-Identifier: Apache-2.0
"""Compares RC with UD in each cell, also with many queue pairs, and local with credit windows.

SEND is compared with SEND, the only operation of UD. Rows of different devices, or of different
MTUs, are not compared.
"""

from __future__ import annotations

from report import compare
from report.compare import Question
from report.rcud.rows import WINDOW_MODES, Index, Row, Source

RC_OR_UD = Question(
    "RC against UD",
    "RC",
    "UD",
    "Mops",
    "Messages that the receiver counted. A local window counts the sender's own completions; a credit window counts "
    "the messages that the receiver has, for both transports.",
)
WINDOWS = Question(
    "Local against credit windows",
    "local",
    "credit",
    "Mops",
    "For UD a completion says that a message has left, not that it has arrived, so a local window does not limit the "
    "undelivered messages.",
)


QUEUE_PAIRS = Question(
    "One UD queue pair against many of RC",
    "RC",
    "UD",
    "Mops",
    "As many queue pairs send in turn to one receiver, which has as many of RC or one of UD.",
)


class Comparison(compare.Comparison[Row]):
    """Two rows of one cell, such as RC and UD."""

    @property
    def obstacle(self) -> str:
        return super().obstacle or (other_port(self.one, self.other) if self.one and self.other else "")

    @property
    def rc(self) -> Row | None:
        return self.one

    @property
    def ud(self) -> Row | None:
        return self.other

    @property
    def _some(self) -> Row:
        row = self.one or self.other
        assert row is not None, "a cell has a row"
        return row

    @property
    def msg(self) -> int:
        return self._some.msg

    @property
    def window(self) -> int:
        return self._some.window

    @property
    def window_mode(self) -> str:
        return self._some.window_mode


def other_port(one: Row, other: Row) -> str:
    """Say that two rows are of different devices or MTUs; empty if they are not."""
    if one.words["device"] != other.words["device"]:
        return f"other device: {one.words['device'] or 'none stated'} and {other.words['device'] or 'none stated'}"
    if one.get("mtu") != other.get("mtu"):
        return f"other MTU: {one.mtu or 'none stated'} and {other.mtu or 'none stated'}"
    return ""


def compare_all(source: Source) -> list[compare.Comparison]:
    return [*rc_and_ud(source), *_windows(source), *(pair for _, pair in queue_pairs(source))]


def rc_and_ud(source: Source) -> list[Comparison]:
    """Compare RC with UD, by window mode, window and size."""
    index = Index.of(source.single)
    found = {
        (row.window_mode, row.window, row.msg) for row in source.single if row.op == "send" and row.mode in ("RC", "UD")
    }
    cells = []
    for window_mode, window, msg in sorted(found, key=lambda key: (WINDOW_MODES.index(key[0]), key[1], key[2])):
        group = f"window {window}" + ("" if source.published else f", {window_mode}")
        rc, ud = index.get("RC", msg, window, window_mode), index.get("UD", msg, window, window_mode)
        cells.append(Comparison(RC_OR_UD, group, f"SEND {msg} B, {group}", "mops", rc, ud))
    return cells


def queue_pairs(source: Source) -> list[tuple[int, Comparison]]:
    """Compare N queue pairs of RC with one of UD that N senders' queue pairs send to, by N.

    Only rows of one sending thread are compared, because more would also compete with each other.
    """
    rows = {(*row.cell[1:], row.qps, row.mode): row for row in source.queue_pairs if row.senders == 1}
    pairs = []
    for cell in sorted({key[:-1] for key in rows}, key=lambda key: (key[3], key[1], key[0], key[4])):
        msg, window, _, window_mode, qps = cell
        group = f"window {window}, {window_mode}"
        where = f"{qps} queue pairs, SEND {msg} B, {group}"
        found = rows.get((*cell, "RC")), rows.get((*cell, "UD"))
        pairs.append((qps, Comparison(QUEUE_PAIRS, group, where, "mops", *found)))
    return pairs


def window_modes(source: Source) -> list[tuple[Row, Row]]:
    """Return pairs (local, credit) of usable rows of the same cell, device and MTU."""
    return [
        (each.one, each.other)
        for each in _windows(source)
        if each.one and each.other and each.one.usable and each.other.usable
        if not other_port(each.one, each.other)
    ]


def _windows(source: Source) -> list[Comparison]:
    index = Index.of(source.single)
    pairs = []
    for row in source.single:
        credit = index.get(row.mode, row.msg, row.window, "credit", row.op) if row.window_mode == "local" else None
        if credit is not None:
            group = f"{row.mode} {row.op.upper()}"
            where = f"{group} {row.msg} B, window {row.window}"
            pairs.append(Comparison(WINDOWS, group, where, "mops", row, credit))
    return pairs
