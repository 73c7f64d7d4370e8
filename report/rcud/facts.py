# SPDX-License-Identifier: Apache-2.0
"""Generates the headline facts of a table: winners, best rates, losses and rows left out."""

from __future__ import annotations

from report.rcud.compare import Comparison, rc_and_ud
from report.rcud.rows import Row, Source
from report.tables import digits


def facts(source: Source) -> list[str]:
    """Return the headline facts of a source as sentences."""
    cells = [cell for cell in rc_and_ud(source) if not cell.obstacle]
    sentences = []
    for window_mode in ("local", "credit"):
        for window in sorted({cell.window for cell in cells}):
            part = [cell for cell in cells if (cell.window_mode, cell.window) == (window_mode, window)]
            if part:
                sentences.append(_lead(window, window_mode if not source.published else "", part))
    left_out = [cell for cell in rc_and_ud(source) if cell.obstacle]
    if left_out:
        sentences.append(
            f"{len(left_out)} of {len(cells) + len(left_out)} cells cannot be compared; the table of verdicts says why."
        )
    for mode in ("RC", "UD", "UD-seg"):
        good = [row for row in source.single if row.mode == mode and row.op == "send" and row.usable]
        if good:
            fastest, widest = max(good, key=lambda row: row.mops), max(good, key=lambda row: row.gib)
            sentences.append(
                f"{mode} reaches {rate(fastest)} Mops ({_place(fastest, source)}) "
                f"and {digits(widest.gib)} GiB/s ({_place(widest, source)})."
            )
    for window_mode in ("local", "credit"):
        rows = [row for row in source.single if row.mode == "UD" and row.window_mode == window_mode]
        counted = [row for row in rows if row.get("lost") is not None and row.get("posted")]
        if counted:
            lost, posted = (sum(row.values[name] for row in counted) for name in ("lost", "posted"))
            sentences.append(
                f"UD with {window_mode} windows lost {lost:,.0f} of {posted:,.0f} messages posted "
                f"({100 * lost / posted:.3g} %)."
            )
    doubtful = [row for row in source.single if row.validity in ("suspect", "invalid")]
    if doubtful:
        names = "; ".join(f"{row.mode} {_place(row, source)}: {row.validity}" for row in doubtful)
        sentences.append(f"{len(doubtful)} of {len(source.single)} rows are not counted: {names}.")
    return sentences


def _lead(window: int, window_mode: str, cells: list[Comparison]) -> str:
    words = []
    for winner, text in (("RC", "RC is ahead"), ("UD", "UD is ahead"), ("no difference", "no difference")):
        part = [cell for cell in cells if cell.winner == winner]
        if part:
            leads = sorted(cell.ratio if winner == "UD" else 1 / cell.ratio for cell in part)
            low, high = (f"{100 * (lead - 1):.0f}" for lead in (leads[0], leads[-1]))
            span = f" by {low} %" if low == high else f" by {low} to {high} %"
            sizes = ", ".join(str(cell.msg) for cell in part)
            words.append(f"{text}{span if winner != 'no difference' else ''} at {sizes} B")
    return f"Window {window}{', ' + window_mode if window_mode else ''}: {'; '.join(words)}."


def _place(row: Row, source: Source) -> str:
    return f"{row.msg} B, window {row.window}" + ("" if source.published else f" {row.window_mode}")


def rate(row: Row) -> str:
    low, middle, high = map(digits, row.interval("mops"))
    return f"{middle} [{low}, {high}]" if row.measured_interval else middle
