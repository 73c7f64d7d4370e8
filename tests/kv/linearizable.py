# SPDX-License-Identifier: Apache-2.0
"""Decides whether a history of one register, in which each value is written once, is linearizable.

The method is that of Gibbons and Korach, "Testing shared memories" (1997). A value's cluster is its
write and its reads. All operations of a cluster must take effect in one stretch of time that no
other cluster's stretch interrupts. Let `first_end` be the earliest end in the cluster and
`last_begin` the latest begin. If first_end < last_begin, the register holds the value throughout
[first_end, last_begin], a forward zone. Otherwise the stretch may be any point of
[last_begin, first_end], a backward zone. The history is linearizable exactly if no read ends before
its write begins, no two forward zones overlap, and no backward zone lies within a forward zone.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import NamedTuple

INFINITE = float("inf")


class Operation(NamedTuple):
    """A write of `value`, or a read that returned it; times are in one unit, of one clock.

    A write without an answer has the end INFINITE. The value None is the state before any write.
    """

    is_write: bool
    value: Hashable
    begin: float
    end: float


def name_absences(history: Iterable[Operation]) -> list[Operation]:
    """Replace the value None of reads by the absence that they found, for `violation` to judge.

    The key must have one writer, whose operations do not overlap. The writer's DELs are writes of
    the value ("absent", anything), each different. A read that found no value gets the first
    absence that it can have found, because that restricts later reads least. If there is none, it
    keeps None.
    """
    operations = sorted(history, key=lambda each: each.begin)
    versions = [Operation(True, None, -INFINITE, -INFINITE), *(each for each in operations if each.is_write)]
    ends = [version.end for version in versions]
    place = {version.value: number for number, version in enumerate(versions)}
    under_way: list[tuple[float, int]] = []  # ends of reads, and the versions that they returned
    seen = 0  # the newest version returned by a read that ended before the current one began
    named = []
    for read in (each for each in operations if not each.is_write):
        while under_way and under_way[0][0] < read.begin:
            seen = max(seen, heappop(under_way)[1])
        if read.value is None:
            there = bisect_left(ends, read.begin) - 1  # the last version that was complete
            for version in islice(versions, max(there, seen), None):
                if version.begin > read.end:
                    break
                if version.value is None or version.value[0] == "absent":  # type: ignore[index]
                    read = read._replace(value=version.value)
                    break
        if read.value in place:
            heappush(under_way, (read.end, place[read.value]))
        named.append(read)
    return [*versions[1:], *named]


def violation(history: Iterable[Operation]) -> str | None:
    """Return one sentence about a contradiction in the history; None if it is linearizable."""
    clusters: dict[Hashable, list[Operation]] = {}
    for operation in history:
        clusters.setdefault(operation.value, []).append(operation)
    clusters.setdefault(None, []).append(Operation(True, None, -INFINITE, -INFINITE))

    forward: list[tuple[float, float, Hashable]] = []
    backward: list[tuple[float, float, Hashable]] = []
    for value, operations in clusters.items():
        writes = [each for each in operations if each.is_write]
        if not writes:
            return f"{value} was read and never written"
        if len(writes) > 1:
            return f"{value} was written twice, so the history cannot be judged"
        if len(operations) == 1 and writes[0].end == INFINITE:
            continue  # the write may never have taken effect
        for read in operations:
            if read.end < writes[0].begin:
                return f"{value} was read before its write began"
        first_end = min(each.end for each in operations)
        last_begin = max(each.begin for each in operations)
        (forward if first_end < last_begin else backward).append(
            (min(first_end, last_begin), max(first_end, last_begin), value)
        )

    forward.sort(key=lambda zone: zone[:2])
    for one, other in pairwise(forward):
        if other[0] < one[1]:
            return f"{one[2]} and {other[2]} were both the current value at {other[0]}"
    at = 0
    backward.sort(key=lambda zone: zone[:2])
    for begin, end, value in backward:
        while at < len(forward) and forward[at][1] < begin:
            at += 1
        if at < len(forward) and forward[at][0] < begin and end < forward[at][1]:
            return f"{value} took effect while {forward[at][2]} was the current value throughout"
    return None
