# SPDX-License-Identifier: Apache-2.0
"""Reads the tables that perftest's programs print.

The programs can exit with 0 after an error, so only a row with positive figures counts as a result.
"""

import math
import re
from typing import NamedTuple

ROW = re.compile(r"^ *(\d+)[ \t]+(\d+)((?:[ \t]+(?:\d+\.\d+|-?nan))+)[ \t]*$", re.MULTILINE)
DEVIATION = 4  # the place of this figure among those of a latency


class Row(NamedTuple):
    message_bytes: int
    iterations: int
    figures: tuple[float, ...]


def rows(output: str) -> list[Row]:
    return [
        Row(int(size), int(iterations), tuple(map(float, figures.split())))
        for size, iterations, figures in ROW.findall(output)
    ]


def is_bandwidth_result(row: Row) -> bool:
    """The figures are peak and average MB/s and million messages a second; the peak may be 0."""
    return len(row.figures) == 3 and not math.isnan(row.figures[0]) and row.figures[1] > 0 and row.figures[2] > 0


def is_latency_result(row: Row) -> bool:
    """The figures are min, max, typical, average, deviation, 99 % and 99.9 %, all in us.

    perftest squares each distance from the average in an int, so its deviation is no number if one
    latency is more than 46 ms from it, as on a loaded machine (print_report_lat()).
    """
    if len(row.figures) != 7:
        return False
    others = row.figures[:DEVIATION] + row.figures[DEVIATION + 1 :]
    if math.isnan(row.figures[DEVIATION]) and row.figures[1] < 46_000:
        return False
    return not any(map(math.isnan, others)) and others[2] > 0 and others[3] > 0


def check_result(program: str, output: str, iterations: int) -> None:
    """Fail the test unless the output has one row of `iterations`, with positive figures."""
    found = rows(output)
    is_result = is_latency_result if program.endswith("_lat") else is_bandwidth_result
    assert len(found) == 1 and is_result(found[0]), f"no result in what {program} printed:\n{output}"
    assert found[0].iterations == iterations, f"{program} was asked for {iterations} iterations:\n{output}"
