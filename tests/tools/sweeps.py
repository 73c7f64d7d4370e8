# SPDX-License-Identifier: Apache-2.0
"""The repetitions in the table of a sweep."""


def times_measured(row: dict) -> int:
    """Return how often a cell was measured, at the distance of the sweep or at another one."""
    return len(row["repetitions"]) + len(row["apart"])


def expect_equally_often(rows: list[dict], asked: int) -> None:
    """Each cell was measured as often as the others, and at most twice as often as asked for."""
    (times,) = {times_measured(row) for row in rows}
    assert asked <= times <= 2 * asked, (asked, times)
