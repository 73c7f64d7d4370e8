"""Whether a history of one register, each value written once, is linearizable (Gibbons and Korach, "Testing shared memories", 1997).

A value's cluster is its write and its reads. Every operation of a cluster must take effect in one stretch of time that no other cluster's
stretch cuts: with `first_end` the earliest end in the cluster and `last_begin` the latest begin, the register holds the value throughout
[first_end, last_begin] if that is not empty (a forward zone); otherwise its stretch may be any point of [last_begin, first_end] (a
backward zone). The history is linearizable exactly if no read ends before its write begins, no two forward zones overlap, and no backward
zone lies within a forward zone.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import NamedTuple

INFINITE = float("inf")


class Operation(NamedTuple):
    """A write of `value`, or a read that brought it. A write without an answer has no end. None is what was there before any write."""

    is_write: bool
    value: Hashable
    begin: float
    end: float


def name_absences(history: Iterable[Operation]) -> list[Operation]:
    """For a key with one writer, whose operations follow each other: each read that found nothing (None) brings the first absence that it
    can have found, so that `violation` can judge it. The writer's absences are values ("absent", anything). What can have found none stays
    as it is. The first one is the best choice: it asks least of the reads that come after."""
    operations = sorted(history, key=lambda each: each.begin)
    versions = [Operation(True, None, -INFINITE, -INFINITE), *(each for each in operations if each.is_write)]
    ends = [version.end for version in versions]
    place = {version.value: number for number, version in enumerate(versions)}
    under_way: list[tuple[float, int]] = []  # when a read ends, and the version that it brings
    seen = 0  # the newest version that a read brought which ended before this one
    named = []
    for read in (each for each in operations if not each.is_write):
        while under_way and under_way[0][0] < read.begin:
            seen = max(seen, heappop(under_way)[1])
        if read.value is None:
            there = bisect_left(ends, read.begin) - 1  # the last version that was there for certain
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
    """What cannot be, in one sentence; None if the history is linearizable."""
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
            return f"{value} was written twice: this cannot be judged"
        if len(operations) == 1 and writes[0].end == INFINITE:
            continue  # perhaps it never took effect
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
            return f"{one[2]} and {other[2]} were both there at {other[0]}"
    at = 0
    backward.sort(key=lambda zone: zone[:2])
    for begin, end, value in backward:
        while at < len(forward) and forward[at][1] < begin:
            at += 1
        if at < len(forward) and forward[at][0] < begin and end < forward[at][1]:
            return f"{value} took effect while {forward[at][2]} was there throughout"
    return None
