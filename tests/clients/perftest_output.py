"""What perftest's programs print, read: they can exit 0 after an error, so only a table row with positive figures is a result."""

import re
from typing import NamedTuple

ROW = re.compile(r"^ *(\d+)[ \t]+(\d+)((?:[ \t]+\d+\.\d+)+)[ \t]*$", re.MULTILINE)


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
    """Figures: peak and average MB/s, million messages a second. The peak is not measured in every run."""
    return len(row.figures) == 3 and row.figures[1] > 0 and row.figures[2] > 0


def is_latency_result(row: Row) -> bool:
    """Figures, in us: min, max, typical, average, deviation, 99 %, 99.9 %."""
    return len(row.figures) == 7 and row.figures[2] > 0 and row.figures[3] > 0


def check_result(program: str, output: str, iterations: int) -> None:
    """One row, of the iterations that were asked for, with figures that something was measured by."""
    found = rows(output)
    is_result = is_latency_result if program.endswith("_lat") else is_bandwidth_result
    assert len(found) == 1 and is_result(found[0]), f"no result in what {program} printed:\n{output}"
    assert found[0].iterations == iterations, f"{program} was asked for {iterations} iterations:\n{output}"
