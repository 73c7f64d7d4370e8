# SPDX-License-Identifier: Apache-2.0
"""Changes figures in a result table, as a forger would, and asks `verbena check` about them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from programs import Programs, Ran

Row = dict
Change = Callable[[Row], object]


def check(programs: Programs, document: dict) -> Ran:
    path = programs.folder / "forged.json"
    path.write_text(json.dumps(document))
    return programs.run("verbena", "check", "--strict", path)


def expect_refused(programs: Programs, document: dict, row: Row, forge: Change) -> None:
    """Forge the only row of a table, which is refused with a sentence, whatever verdict it has."""
    assert check(programs, document).status == 0, "the row as it was measured"
    forge(row)
    row["validity"], row["reason"] = ("valid", "") if row["validity"] != "n/a" else ("n/a", "")
    ran = check(programs, document)
    assert ran.status == 3 and ran.err == "", ran
    assert ran.out.startswith("invalid ") and ": " in ran.out.splitlines()[0], ran
    assert ran.out.endswith("1 rows: 1 invalid, 0 suspect\n"), ran


def rows_of_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def expect_refused_in_csv(programs: Programs, row: dict[str, str], column: str, forged: str) -> None:
    """Write a table of this row, as it was and with another field; the second one is refused."""
    path = programs.folder / "forged.csv"
    for value, status in ((row[column], 0), (forged, 3)):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow(row | {column: value})
        ran = programs.run("verbena", "check", "--strict", path)
        assert ran.status == status, ran


def scaled(factor: float, *names: str) -> Change:
    def change(row: Row) -> None:
        for name in names:
            row[name] *= factor

    return change


def with_values(**values: object) -> Change:
    return lambda row: row.update(values)


def together(*changes: Change) -> Change:
    def change(row: Row) -> None:
        for each in changes:
            each(row)

    return change


def of_repetitions(change: Change) -> Change:
    def change_all(row: Row) -> None:
        for repetition in row["repetitions"]:
            change(repetition)

    return change_all


def of_first(change: Change) -> Change:
    return lambda row: change(row["repetitions"][0])


def histogram(change: Change) -> Change:
    return of_first(lambda one: change(one["latency_ns"]))
