# SPDX-License-Identifier: Apache-2.0
"""The rounds of a measurement, with programs that are functions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from cells import MOPS, OURS, Cell, Contestant, Missing, NoResult, Sample
from measure import CLASS_CHANGED, NOT_REACHED, Results, measure
from programs import Machine
from table import MIXED


class Cores(Machine):
    """A machine whose classes of cores are given, one for each probe; the last one stays."""

    def __init__(self, *classes: str) -> None:
        super().__init__(Path(), (0, 1))
        object.__setattr__(self, "_classes", self._each(classes))

    def _each(self, classes: tuple[str, ...]) -> Iterator[str]:
        yield from classes
        while True:
            yield classes[-1]

    def line(self) -> tuple[float, str]:
        return 100.0, next(self._classes)  # type: ignore[attr-defined]


def refuse(error: Exception) -> NoReturn:
    raise error


def one(run: Callable[[], Sample], name: str = OURS) -> Cell:
    return Cell("send", "SEND", (MOPS,), (Contestant(name, run),))


def measured(machine: Machine, cells: list[Cell], repetitions: int = 2, limit_s: float = 60) -> Results:
    results = Results()
    measure(machine, cells, repetitions, limit_s, results)
    return results


def test_each_program_runs_in_turn() -> None:
    order: list[str] = []

    def run(name: str) -> Callable[[], Sample]:
        def ran() -> Sample:
            order.append(name)
            return Sample({"mops": 1.0})

        return ran

    both = Cell("send", "SEND", (MOPS,), (Contestant(OURS, run("ours")), Contestant("UCX", run("theirs"))))
    results = measured(Cores("near"), [both], repetitions=3)
    assert order == ["ours", "theirs"] * 3
    assert [(run.program, run.near, run.rtt_before_ns) for run in results.runs[:2]] == [
        (OURS, "near", 100.0),
        ("UCX", "near", 100.0),
    ]


def test_a_repetition_in_which_the_class_changes_is_repeated() -> None:
    results = measured(Cores("near", "far", "near"), [one(lambda: Sample({"mops": 1.0}))])
    assert [run.near for run in results.runs] == [MIXED, "near", "near"]
    assert results.reasons() == {}


def test_a_cell_ends_after_twice_its_repetitions_when_no_class_stays() -> None:
    results = measured(Cores("near", "near", "far", "far", "smt", "smt"), [one(lambda: Sample({"mops": 1.0}))])
    assert [run.near for run in results.runs] == ["near", "far", "smt", "smt"]


def test_a_missing_program_is_tried_once_and_its_reason_kept() -> None:
    tries: list[int] = []

    def run() -> Sample:
        tries.append(1)
        raise Missing("iperf3 is not installed: apt-get install iperf3")

    results = measured(Cores("near"), [one(run, "iperf3")])
    assert len(tries) == 1
    assert results.reasons() == {("SEND", "iperf3"): "iperf3 is not installed: apt-get install iperf3"}


def test_a_failed_run_is_reported_and_the_next_one_counts() -> None:
    outcomes = iter([NoResult("it hung"), None])

    def run() -> Sample:
        if failure := next(outcomes):
            raise failure
        return Sample({"mops": 1.0})

    results = measured(Cores("near"), [one(run)])
    assert results.failures == [("SEND", OURS, "it hung")]
    assert len(results.runs) == 1
    assert results.reasons() == {}


def test_a_program_whose_runs_all_failed_is_not_available() -> None:
    results = measured(Cores("near"), [one(lambda: refuse(NoResult("it hung")))])
    assert results.reasons() == {("SEND", OURS): "it hung"}


def test_a_doubtful_run_does_not_count() -> None:
    results = measured(Cores("near"), [one(lambda: Sample({"mops": 1.0}, "suspect: spread"))])
    assert results.runs == []
    assert results.failures[0] == ("SEND", OURS, "suspect: spread")


def test_runs_before_ctrl_c_are_kept() -> None:
    outcomes = iter([None, KeyboardInterrupt()])

    def run() -> Sample:
        if interrupt := next(outcomes):
            raise interrupt
        return Sample({"mops": 1.0})

    results = Results()
    with pytest.raises(KeyboardInterrupt):
        measure(Cores("near"), [one(run)], 2, 60, results)
    assert len(results.runs) == 1
    assert results.cells[0].title == "SEND"


def test_no_run_begins_after_the_limit() -> None:
    results = measured(Cores("near"), [one(lambda: Sample({"mops": 1.0}))], limit_s=0)
    assert results.runs == []
    assert "stopped after" in results.notes[0]
    assert results.reasons() == {("SEND", OURS): NOT_REACHED}


def test_a_program_whose_repetitions_were_all_left_out_is_not_available() -> None:
    results = measured(
        Cores("near", "far", "near", "far", "near", "far", "near", "far"), [one(lambda: Sample({"mops": 1.0}))]
    )
    assert results.reasons() == {("SEND", OURS): CLASS_CHANGED}


def test_a_probe_that_fails_once_is_repeated_and_one_that_fails_twice_leaves_the_repetition_out() -> None:
    class Busy(Machine):
        """A machine whose probe fails a number of times."""

        def line(self) -> tuple[float, str]:
            if failures:
                raise failures.pop()
            return 100.0, "near"

    failures = [NoResult("no round trip was complete in time")]
    results = measured(Busy(Path(), (0, 1)), [one(lambda: Sample({"mops": 1.0}))], repetitions=1)
    assert [run.near for run in results.runs] == ["near"]
    failures += [NoResult("no round trip was complete in time")] * 2
    results = measured(Busy(Path(), (0, 1)), [one(lambda: Sample({"mops": 1.0}))], repetitions=1)
    assert [run.near for run in results.runs] == [MIXED, "near"]
    assert results.failures[0][0] == "round trip of a cache line"
