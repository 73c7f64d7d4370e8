# SPDX-License-Identifier: Apache-2.0
"""`verbena check --strict` refuses tables of ours in which figures were changed."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from forging import (
    Row,
    check,
    expect_refused,
    expect_refused_in_csv,
    of_repetitions,
    rows_of_csv,
    scaled,
    together,
    with_values,
)
from programs import PUBLISHED, Programs


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with a table of ours in rows.json and rows.csv."""
    cells = ("--sizes", "64,8K", "--windows", 64, "--iters", 2000, "--warmup", 100, "--reps", 2)
    ran = shared_programs.run("verbena", "bench", "rcud", "--quiet", *cells, "--json", "rows.json", "--csv", "rows.csv")
    assert ran.status == 0, ran
    return shared_programs.folder


def cell_of(document: dict, mode: str) -> Row:
    """Leave one row in the table, and return it."""
    wanted = {"mode": mode, "msg": 64, "window_mode": "local"}
    document["rows"] = [row for row in document["rows"] if wanted.items() <= row.items()]
    return document["rows"][0]


def as_message_of(size: int) -> Callable[[Row], None]:
    return lambda row: row.update(msg=size, gib=row["mops"] * 1e6 * size / 2**30)


def renamed_to(mode: str) -> Callable[[Row], None]:
    return together(with_values(mode=mode), as_message_of(8192))


def faster(row: Row) -> None:
    """Divide the time of each repetition by ten, and change every figure that follows from it."""
    for repetition in row["repetitions"]:
        repetition["counted_ns"] //= 10
        repetition["mops"] = repetition["counted"] * 1e3 / repetition["counted_ns"]
    rates = sorted(repetition["mops"] for repetition in row["repetitions"])
    row.update(
        mops=sum(rates) / 2, mops_low=rates[0], mops_high=rates[1], spread=(rates[1] - rates[0]) / sum(rates) * 2
    )
    row["gib"] = row["mops"] * 1e6 * row["msg"] / 2**30


RATES = ("mops", "gib", "mops_low", "mops_high")
FORGERIES: dict[str, tuple[str, Callable[[Row], None]]] = {
    "twice the bytes": ("RC", scaled(2, "gib")),
    "a higher rate": ("RC", scaled(1.5, "mops", "gib")),
    "a higher rate with its interval": ("RC", scaled(1.9, *RATES)),
    "a lower rate with its interval": ("RC", scaled(1 / 3, *RATES)),
    "ten times the rate at a tenth of the latency": ("RC", together(scaled(10, *RATES), scaled(0.1, "p50_us"))),
    "more messages": ("RC", scaled(10, "posted", "completed", "delivered")),
    "nothing completed": ("RC", with_values(completed=0)),
    "a message lost and hidden": ("RC", scaled(0.5, "delivered")),
    "reordered": ("RC", with_values(reordered=500)),
    "reordered in the repetitions too": (
        "RC", together(with_values(reordered=500), lambda row: row["repetitions"][0].update(reordered=500)),
    ),
    "p99 below p50": ("RC", with_values(p99_us=0.001)),
    "a p99.99 that was not measured": ("RC", scaled(0.5, "p9999_us")),
    "no spread": ("RC", with_values(spread=0)),
    "near cores": ("RC", with_values(rtt_class="smt", rtt_before_ns=60.0, rtt_after_ns=60.0)),
    "another device": ("RC", with_values(device="mlx5_0")),
    "no interval": ("RC", together(with_values(mops_low=None, mops_high=None), scaled(5, "mops", "gib"))),
    "nothing delivered": ("RC", with_values(posted=0, completed=0, delivered=0)),
    "an MTU of 16384 B": ("UD", together(as_message_of(8192), with_values(mtu=16384))),
    "a large message by name": ("UD", renamed_to("UD-seg")),
    "UD sold as RC": ("UD", together(with_values(mode="RC"), as_message_of(128))),
    "an unknown mode": ("RC", with_values(mode="XRC")),
    "a figure hidden as n/a": ("RC", with_values(mops=None, gib=None, validity="n/a")),
    "a negative count": ("RC", with_values(lost=-1)),
    "without repetitions": ("RC", with_values(repetitions=[])),
    "one repetition left": ("RC", lambda row: row["repetitions"].pop()),
    "repetitions that are words": ("RC", with_values(repetitions=["fast", "faster"])),
    "repetitions without counts": ("RC", of_repetitions(lambda one: one.pop("counted"))),
    "counts that are words": ("RC", of_repetitions(with_values(posted="many"))),
    "a histogram of other latencies": ("RC", of_repetitions(lambda one: one["latency_ns"]["buckets"].reverse())),
    "latencies of nobody": ("RC", of_repetitions(lambda one: one["latency_ns"].update(count=10**6))),
    "a repetition that failed": ("RC", of_repetitions(with_values(failure="the other process ended"))),
    "a window that was smaller": ("RC", with_values(window=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, measured: Path, name: str) -> None:
    mode, forge = FORGERIES[name]
    document = json.loads((measured / "rows.json").read_text())
    row = cell_of(document, mode)
    expect_refused(programs, document, row, forge)


def test_a_rate_that_was_forged_in_the_repetitions_too_is_suspect(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    faster(cell_of(document, "RC"))
    ran = check(programs, document)
    assert ran.out.startswith("suspect ") and "the receiver counted" in ran.out, ran


def test_the_same_cell_twice_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


def test_a_row_of_hardware_above_its_link_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    cell_of(document, "RC")
    document["environment"] |= {"kind": "hardware", "link": "Ethernet, 0.1 Gb/s, to host2"}
    ran = check(programs, document)
    assert ran.status == 3 and "more than the link's 0.1 Gb/s" in ran.out, ran


def another_value(row: Row, column: str) -> str:
    """Return a value that the column does not hold. The class of the cores is the machine's."""
    if column == "rtt_class":
        return "far" if row[column] == "smt" else "smt"
    return str(float(row[column]) + 100)


@pytest.mark.parametrize("column", ["mops", "gib", "delivered", "lost", "spread", "p50_us", "rtt_class", "iters"])
def test_a_forged_figure_is_found_in_csv_too(programs: Programs, measured: Path, column: str) -> None:
    rows = rows_of_csv(measured / "rows.csv")
    row = next(row for row in rows if row["mode"] == "RC")
    expect_refused_in_csv(programs, row, column, another_value(row, column))


def test_a_table_of_ours_without_its_repetitions_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    kept = {name for name in cell_of(document, "RC") if name in PUBLISHED.read_text().splitlines()[0].split(",")}
    document["rows"] = [{name: value for name, value in document["rows"][0].items() if name in kept}]
    ran = check(programs, document)
    assert ran.status == 3 and "no repetitions" in ran.out, ran


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("", 1, "empty"),
        ("hello world", 1, "no rows"),
        ("[1,2]", 1, "no rows"),
        ("{}", 1, "no list 'rows'"),
        ('{"rows":[1]}', 1, "row 1 is not an object"),
        ('{"rows":[{"a":1}]}', 1, "no column 'experiment'"),
        ("experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,32,4,1,nan,1\n", 3, "'nan' is not a finite number"),
        ("experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,32,4,1,-1,1\n", 3, "'-1' is not a finite number"),
        ("experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,32,4,1,1,0.0298\n# a: b", 0, "1 rows: 0 invalid"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_ours_is_said_in_one_line(programs: Programs, text: str, status: int, says: str) -> None:
    (programs.folder / "table").write_text(text)
    ran = programs.run("verbena", "check", "--strict", "table")
    assert ran.status == status and says in ran.out + ran.err, ran
