# SPDX-License-Identifier: Apache-2.0
"""Findings and lines of evidence that several claims about many clients have in common."""

from __future__ import annotations

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.compare import TWICE, drift, repeated
from report.scale.rows import Row

# "constant" and "no significant degradation": the greatest value is at most this many times the
# least.
CONSTANT = 1.5
# A claim about scale needs this ratio of the most to the fewest clients, and this many numbers of
# clients.
SPAN = 100
CLIENTS_MIN = 3


def constant(rows: list[Row], name: str, unit: str, what: str, note: str, evidence: list[str]) -> Finding:
    """Judge that a figure does not depend on the number of clients."""
    rows = [row for row in rows if row.get(name)]
    values = [row.values[name] for row in rows]
    if not rows:
        return Finding(NOT_TESTABLE, "no valid row over RDMA", evidence)
    span = f"{rows[0].clients} to {rows[-1].clients} clients"
    because = f"{what} {min(values):.3g} to {max(values):.3g} {unit} from {span}{note}"
    if moved := drift(*rows):
        return Finding(NOT_TESTABLE, f"{because}, but the {moved}", evidence)
    # One counterexample contradicts a claim; support needs a range of clients.
    if max(values) > CONSTANT * min(values):
        return Finding(CONTRADICTED, because, evidence)
    if len(rows) < CLIENTS_MIN or rows[-1].clients < SPAN * rows[0].clients:
        return Finding(
            NOT_TESTABLE, f"{because}: too few different numbers of clients for a claim about scale", evidence
        )
    return Finding(SUPPORTED, because, evidence)


def by_clients(rows: list[Row] | tuple[Row, ...], name: str) -> list[Row]:
    return sorted(
        (row for row in rows if row.get(name) is not None), key=lambda row: (row.transport, row.rate, row.clients)
    )


def other_work(rows: list[Row]) -> str:
    """Say why rows of several numbers of clients may not be compared; empty if they may."""
    if len({row.load for row in rows}) > 1:
        return "the rows did different work, such as other numbers of messages"
    if repeated(rows, lambda row: row.clients):
        return f"{TWICE}, with equal numbers of clients"
    return drift(*rows)


def counts(rows: list[Row]) -> str:
    return ", ".join(str(count) for count in sorted({row.clients for row in rows}))


def at_once(row: Row) -> str:
    peak = row.get("peak_clients")
    return "" if peak is None else f", {peak:.0f} at once"


def line_of(row: Row, text: str, more: str = "") -> str:
    """Return what a row is, and `text` about it, in one line."""
    pace = f", {row.rate:.0f}/s offered" if row.rate else ""
    mark = "" if row.usable else f" ({row.fault})"
    sharing = f" on {row.shared} shared queue pairs" if row.shared else ""
    if row.is_rival:
        return f"{row.system} with {row.clients} clients over {row.transport}: {text}{mark}"
    kind = (", a thread for each" if row.engine == "threads" else "") + (f", {row.apart}" if row.apart else "")
    return f"{row.clients} clients over {row.transport or '?'}{sharing}{kind}{pace}: {text}{more}{mark}"
