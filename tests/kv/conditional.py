# SPDX-License-Identifier: Apache-2.0
"""Decides whether a history of one key that is changed by compare-and-set is linearizable.

`search` does not trust the versions: it looks for an order of the operations, as Wing and Gong do
("Testing and verifying concurrent objects", 1993). `version_violation` trusts them as witnesses,
and checks that they name such an order.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Step(NamedTuple):
    """One operation; a version of 0 and a value of None stand for a missing key.

    kind "read": found `value` at the version `after`. kind "change": replaced the version `before`
    by `value`, and made the version `after`; a DEL has the value None. kind "refused": wanted to
    replace the version `before`, and found the version `after`.
    """

    kind: str
    before: int
    after: int
    value: str | None
    begin: int
    end: int


def version_violation(history: Iterable[Step]) -> str | None:
    """Return one sentence if the versions contradict a single order of the operations, or None."""
    steps = sorted(history, key=lambda step: step.begin)
    made: dict[int, Step] = {}
    replaced: set[int] = set()
    for step in steps:
        if step.kind != "change":
            continue
        if step.after <= step.before:
            return f"version {step.after} replaced {step.before}"
        if step.after in made or step.before in replaced:
            return f"two changes of {step.before}, or to {step.after}"
        made[step.after] = step
        if step.before != 0:
            replaced.add(step.before)
    for step in steps:
        seen = step.before if step.kind == "change" else step.after
        if seen != 0 and (seen not in made or made[seen].value is None):
            return f"version {seen} was seen, and no SET made it"
        if step.kind == "read" and step.value != (made[seen].value if seen else None):
            return f"version {seen} had two values"
    # No operation may see less than one that had ended before it began.
    ended = sorted(steps, key=lambda step: step.end)
    newest, at = 0, 0
    for step in steps:
        while at < len(ended) and ended[at].end < step.begin:
            newest = max(newest, ended[at].after)
            at += 1
        if step.after != 0 and (step.after < newest or (step.kind == "change" and step.after == newest)):
            return f"version {step.after} was seen after {newest}"
    return None


def search(history: Iterable[Step]) -> bool:
    """Return whether some order of the operations explains all results, by values alone."""
    steps = sorted(history, key=lambda step: step.begin)
    values = {step.after: step.value for step in steps if step.kind == "change"} | {0: None}
    start: tuple[int, frozenset[int], str | None] = (0, frozenset(), None)
    waiting, seen = [start], {start}
    while waiting:
        first, done, state = waiting.pop()
        while True:
            while first in done:
                done -= {first}
                first += 1
            if first == len(steps):
                return True
            limit, candidates = steps[first].end, []
            for number in range(first, len(steps)):
                if steps[number].begin > limit:
                    break
                if number not in done:
                    limit = min(limit, steps[number].end)
                    candidates.append(number)
            # A step that changes nothing, and fits now, need not wait.
            passed = {
                number
                for number in candidates
                if (steps[number].kind == "read" and steps[number].value == state)
                or (steps[number].kind == "refused" and values.get(steps[number].before, "?") != state)
            }
            if not passed:
                break
            done |= passed
        for number in candidates:
            step = steps[number]
            if step.kind == "change" and values.get(step.before, "?") == state:
                after = (first, done | {number}, step.value)
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
    return False
