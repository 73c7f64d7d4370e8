# SPDX-License-Identifier: Apache-2.0
"""Compares the columns of committed tables with those that the program writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path


def header_of(table: Path) -> list[str]:
    with table.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


def complaints(folder: Path, columns: dict[str, list[str]]) -> list[str]:
    """Return a sentence for each table below `folder` whose columns are not those of the program.

    `columns` has the program's columns by system; the file steps.json of each class says which
    system a table is of. A folder that does not exist has no table.
    """
    found = []
    for listed in sorted(folder.glob("*/steps.json")):
        for name, system in json.loads(listed.read_text(encoding="utf-8")).items():
            table = listed.parent / f"{name}.csv"
            if not table.exists():
                found.append(f"{table}: it is listed in steps.json, but absent")
                continue
            header, program = header_of(table), columns[system]
            if missing := [column for column in program if column not in header]:
                found.append(f"{table}: it lacks {', '.join(missing)}, which the program writes now")
            if unknown := [column for column in header if column not in program]:
                found.append(f"{table}: the program no longer writes {', '.join(unknown)}")
        known = {f"{name}.csv" for name in json.loads(listed.read_text(encoding="utf-8"))}
        found += [
            f"{table}: steps.json does not list it"
            for table in sorted(listed.parent.glob("*.csv"))
            if table.name not in known
        ]
    return found
