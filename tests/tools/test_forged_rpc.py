# SPDX-License-Identifier: Apache-2.0
"""`verbena check --strict` refuses tables of `verbena bench rpc` in which figures were changed."""

import copy
import csv
import json
from pathlib import Path

import pytest
from forging import Row, check, expect_refused, rows_of_csv
from programs import ROOT, Programs
from rpc_forgeries import FORGERIES, PERCENTILES, follows, summarized, times


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with a table of ours in rows.json and rows.csv, and ablation.json.

    A run takes a second, because next to nothing under way is impossible only then.
    """
    bench = ("verbena", "bench", "rpc", "--quiet", "--warmup", 0.05, "--reps", 2, "--sizes", 128)
    cells = ("--duration", 1, "--concurrency", "1,16", "--json", "rows.json", "--csv", "rows.csv")
    ran = shared_programs.run(*bench, *cells, limit_s=120)
    assert ran.status == 0, ran
    ablations = ("--ablate", "inline,coalescing,send-queue,pool,connection-pool", "--transport", "rdma")
    few = ("--duration", 0.1, "--concurrency", 4, "--json", "ablation.json")
    ran = shared_programs.run(*bench, *ablations, *few, limit_s=120)
    assert ran.status == 0, ran
    return shared_programs.folder


@pytest.fixture
def document(measured: Path) -> dict:
    return json.loads((measured / "rows.json").read_text())


def leave(document: dict, transport: str, concurrency: int = 16) -> Row:
    """Leave one row in the table, and return it."""
    wanted = {"transport": transport, "concurrency": concurrency}
    document["rows"] = [row for row in document["rows"] if wanted.items() <= row.items()]
    return document["rows"][0]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, document: dict, name: str) -> None:
    transport, forge = FORGERIES[name]
    row = leave(document, transport)
    expect_refused(programs, document, row, forge)


def test_a_verdict_written_by_hand_changes_nothing(programs: Programs, document: dict) -> None:
    row = leave(document, "tcp")
    for validity in ("invalid", "n/a", "perfect"):
        row["validity"], row["reason"] = validity, "it was said"
        ran = check(programs, document)
        assert ran.status == 0 and "it was said" not in ran.out, ran


def test_the_same_cell_twice_is_invalid(programs: Programs, document: dict) -> None:
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


def test_rows_that_exchange_their_figures_are_invalid(programs: Programs, document: dict) -> None:
    few, many = document["rows"][:2]
    for name in set(few) - {"concurrency", "connections"}:
        few[name], many[name] = many[name], few[name]
    ran = check(programs, document)
    assert ran.status == 3 and "it is one of the cell" in ran.out and "4 rows: 2 invalid" in ran.out, ran


def test_a_row_of_hardware_above_its_link_is_invalid(programs: Programs, document: dict) -> None:
    leave(document, "rdma")
    document["environment"] |= {"kind": "hardware", "link": "Ethernet, 0.0001 Gb/s, two processes on one host"}
    ran = check(programs, document)
    assert ran.status == 3 and "more than the link's 0.0001 Gb/s" in ran.out, ran


def test_a_software_device_is_not_sold_as_hardware(programs: Programs, document: dict) -> None:
    document["environment"] |= {"kind": "hardware"}
    ran = check(programs, document)
    assert ran.status == 3 and "vb_lo is a software device" in ran.out, ran


def test_a_row_that_lacks_a_repetition_is_suspect(programs: Programs, document: dict) -> None:
    """A forger who leaves out the worse repetition has to leave out one of each row."""
    row = document["rows"][0]
    del row["repetitions"][1:]
    (left,) = row["repetitions"]
    summarized(row)
    row.update({name: left[name] for name in PERCENTILES})
    row.update(p99_us_low=left["p99_us"], p99_us_high=left["p99_us"], connections_made=left["connections"])
    row["requests_per_message"] = left["frames"] / left["messages"]
    ran = check(programs, document)
    assert "1 repetitions, but other rows have 2" in ran.out, ran


BEHAVIOURS = ("inline", "coalescing", "pool", "connection-pool")


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_row_with_a_behaviour_is_not_sold_as_one_without_it(
    programs: Programs, measured: Path, behaviour: str
) -> None:
    document = json.loads((measured / "ablation.json").read_text())
    document["rows"] = [row for row in document["rows"] if row["ablation"] == behaviour and not row["without"]]
    (row,) = document["rows"]
    assert check(programs, document).status == 0, "the row as it was measured"
    row["without"] = behaviour
    for repetition in row["repetitions"]:
        repetition["cell"] = repetition["cell"].replace("with ", "without ")
    ran = check(programs, document)
    assert ran.status == 3 and f"{behaviour} was on in a row without it" in ran.out, ran


CSV_FORGERIES = (
    *("qps", "gigabits_per_second", "qps_low", "spread", "mean_us", "p90_us", "p99_us_high", "max_us", "requests"),
    *("cpu_us_per_request", "connections", "concurrency", "system", "transport"),
)


@pytest.mark.parametrize("column", CSV_FORGERIES)
def test_a_forged_figure_is_found_in_csv_too(programs: Programs, measured: Path, column: str) -> None:
    row = csv_row(measured)
    value = {"system": "capnp", "transport": "rdma"}.get(column)
    check_csv(programs, row, 0)
    check_csv(programs, row | {column: value or str(float(row[column]) * 3)}, 3)


def test_rates_that_were_forged_in_the_repetitions_of_csv_too_are_invalid(programs: Programs, measured: Path) -> None:
    row: Row = dict(csv_row(measured))
    row["repetitions"] = json.loads(row["repetitions"])
    follows(times(3))(row)
    row["repetitions"] = json.dumps(row["repetitions"])
    check_csv(programs, row, 3)


def test_our_figures_under_the_published_columns_alone_are_not_taken_for_published_ones(
    programs: Programs, document: dict
) -> None:
    published = (ROOT / "bench" / "published" / "rpc_rdma.csv").read_text().splitlines()[0].split(",")
    row = leave(document, "tcp")
    document["rows"] = [{name: row[name] for name in published}]
    ran = check(programs, document)
    assert ran.status == 3 and "no repetitions" in ran.out, ran


def csv_row(measured: Path) -> dict[str, str]:
    rows = rows_of_csv(measured / "rows.csv")
    return next(row for row in rows if (row["transport"], row["concurrency"]) == ("tcp", "16"))


def check_csv(programs: Programs, row: Row, status: int) -> None:
    forged = programs.folder / "forged.csv"
    with forged.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    ran = programs.run("verbena", "check", "--strict", forged)
    assert ran.status == status, ran
