# SPDX-License-Identifier: Apache-2.0
"""`verbena check --strict` refuses tables of `verbena bench connect` that were changed."""

import copy
import json
from pathlib import Path

import pytest
from forging import Change, Row, check, expect_refused, of_repetitions, scaled, together, with_values
from programs import Programs

RATES = ("connects_per_s", "connects_per_s_low", "connects_per_s_high")
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with a table of ours in rows.json."""
    few = ("--clients", 4, "--count", 40, "--reps", 2)
    ran = shared_programs.run("verbena", "bench", "connect", "--quiet", *few, "--json", "rows.json")
    assert ran.status == 0, ran
    return shared_programs.folder


@pytest.fixture
def document(measured: Path) -> dict:
    return json.loads((measured / "rows.json").read_text())


def faster(factor: int, *, row_too: bool) -> Change:
    """Divide the elapsed time of each repetition, and change the rates that follow from it."""

    def change(row: Row) -> None:
        for one in row["repetitions"]:
            one["connect_elapsed_ns"] //= factor
            one["connects_per_s"] = one["count"] * 1e9 / one["connect_elapsed_ns"]
        if row_too:
            low, high = sorted(one["connects_per_s"] for one in row["repetitions"])
            row.update(
                connects_per_s=(low + high) / 2,
                connects_per_s_low=low,
                connects_per_s_high=high,
                spread=(high - low) / ((low + high) / 2),
            )

    return change


def counted(name: str, change: int) -> Change:
    """Change a count in the repetitions, and their sum in the row."""

    def change_both(row: Row) -> None:
        for one in row["repetitions"]:
            one[name] += change
            row[name] += change

    return change_both


def histogram(**values: object) -> Change:
    return of_repetitions(lambda one: one["total_ns"].update(values))


FORGERIES: dict[str, Change] = {
    "a higher rate": scaled(1.5, "connects_per_s"),
    "a higher rate with its interval": scaled(1.5, *RATES),
    "three times the rate at a third of the latency": together(scaled(3, *RATES), scaled(1 / 3, *PERCENTILES)),
    "ten times the rate, in the repetitions alone": faster(10, row_too=False),
    "ten times the rate, everywhere": faster(10, row_too=True),
    "a lower latency": scaled(0.5, "p50_us"),
    "a lower part": scaled(0.5, "connect_p50_us"),
    "a part that took no time": of_repetitions(lambda one: one.update(address_ns=one["route_ns"])),
    "a shorter disconnect": scaled(0.5, "disconnect_p99_us"),
    "more disconnects": scaled(2, "disconnects_per_s"),
    "p99 below p50": with_values(p99_us=0.001),
    "max below p99": with_values(max_us=0.001),
    "a connection more": scaled(1.0125, "established"),
    "a connection that the server did not see": counted("established", -1),
    "one that it saw in addition": counted("established", 1),
    "one that was never disconnected": counted("disconnected", -1),
    "more connections a repetition": with_values(count=400),
    "no spread": with_values(spread=0),
    "no interval": with_values(connects_per_s_low=None, connects_per_s_high=None),
    "a nearer core": with_values(round_trip_ns=60.0),
    "another way to connect": with_values(connect="exchange"),
    "another experiment": with_values(experiment="connects"),
    "no clients": with_values(clients=0),
    "fewer clients": with_values(clients=1),
    "a client more": with_values(clients=5),
    "more clients": with_values(clients=512),
    "more clients than there may be": with_values(clients=4096),
    "half a client": with_values(clients=0.5),
    "a negative rate": with_values(connects_per_s=-1),
    "a rate that is a word": with_values(connects_per_s="fast"),
    "figures hidden as n/a": with_values(connects_per_s=None, validity="n/a"),
    "without repetitions": with_values(repetitions=[]),
    "repetitions that are a count": with_values(repetitions=2),
    "one repetition left": lambda row: row["repetitions"].pop(),
    "the same repetition twice": lambda row: row["repetitions"].__setitem__(1, row["repetitions"][0]),
    "repetitions that are words": with_values(repetitions=["fast", "faster"]),
    "repetitions without times": of_repetitions(lambda one: one.pop("connect_elapsed_ns")),
    "a repetition that failed": of_repetitions(with_values(failure="the other process ended")),
    "a repetition in no time": of_repetitions(with_values(connect_elapsed_ns=0)),
    "a histogram in another order": of_repetitions(lambda one: one["total_ns"]["buckets"].reverse()),
    "a histogram of more values": histogram(count=41),
    "a histogram with a smaller maximum": histogram(max=1),
    "no histogram": histogram(buckets=None),
    "histograms of a latency of nothing": of_repetitions(
        lambda one: one["total_ns"].update(min=1, max=1, buckets=[[1, one["count"]]])
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, document: dict, name: str) -> None:
    row = document["rows"][0]
    expect_refused(programs, document, row, FORGERIES[name])


def test_the_same_cell_twice_is_invalid(programs: Programs, document: dict) -> None:
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


@pytest.mark.parametrize(
    "column", ["connects_per_s", "established", "spread", "p99_us", "connect_p50_us", "round_trip_ns"]
)
def test_a_row_without_a_figure_is_invalid(programs: Programs, document: dict, column: str) -> None:
    document["rows"][0].pop(column)
    ran = check(programs, document)
    assert ran.status == 3 and f"{column} is nothing, but the repetitions give" in ran.out, ran
