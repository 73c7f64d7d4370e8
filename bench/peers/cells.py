# SPDX-License-Identifier: Apache-2.0
"""The words of a measurement: a cell is a question that several programs answer in turn."""

from collections.abc import Callable
from dataclasses import dataclass, field


class NoResult(Exception):
    """A program ran and printed no complete result; the text says what it printed instead."""


class Missing(Exception):
    """A program or a right that is needed is missing; the text says how to get it."""


@dataclass(frozen=True)
class Sample:
    """The result of one run: values by the names of metrics."""

    values: dict[str, float]
    doubt: str = ""  # the reason why the run is not valid; empty if it is


@dataclass(frozen=True)
class Metric:
    """One figure of a sample, which becomes a row of the table."""

    name: str  # the key in Sample.values
    unit: str
    smaller_is_better: bool = False
    suffix: str = ""  # ends the row's title, where a cell has several metrics


MOPS = Metric("mops", "Mops")
US = Metric("us", "us", smaller_is_better=True)
NS = Metric("ns", "ns", smaller_is_better=True)
GIB = Metric("gib_per_s", "GiB/s")
P50 = Metric("us", "us", smaller_is_better=True, suffix=", p50")
P99 = Metric("p99_us", "us", smaller_is_better=True, suffix=", p99")
OVERRUNS = Metric("overruns", "datagrams", smaller_is_better=True, suffix=", overflowed")

OURS = "verbena"


@dataclass(frozen=True)
class Contestant:
    """A program with all its options; `run` makes one run and raises NoResult or Missing."""

    name: str
    run: Callable[[], Sample] = field(compare=False)


@dataclass(frozen=True)
class Cell:
    """One question. The contestant OURS, if there is one, is compared with each of the others."""

    group: str
    title: str  # "SEND 64 B, window 4"
    metrics: tuple[Metric, ...]
    contestants: tuple[Contestant, ...] = field(compare=False)


def size_name(size: int) -> str:
    """Return the size as people write it: 8 B, 8 KiB, 1 MiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
