# SPDX-License-Identifier: Apache-2.0
"""Asks `verbena check`, the one judge of rows, for a table's experiment and its verdicts.

A verdict that stands in a file counts for nothing: a file can be edited.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from report.tables import Table, TableError

BUILT = Path(__file__).resolve().parent.parent / "build" / "verbena"


# The loader's message, and the Debian packages of the libraries that every program of ours needs.
NOT_LOADED = re.compile(r"error while loading shared libraries: ([^:\s]+)")
PACKAGES = {"libibverbs.so.1": "libibverbs1", "librdmacm.so.1": "librdmacm1", "libverbena-nic.so": "libverbena-nic"}


class Verdict(NamedTuple):
    validity: str  # valid, n/a, suspect, invalid, not comparable, mislabelled
    reason: str


class Judged(NamedTuple):
    experiment: str  # as in `verbena bench NAME`
    verdicts: list[Verdict]  # in the order of the rows


def program() -> str:
    """Return the path of `verbena`: the one that runs this report, or is built, or is installed."""
    found = os.environ.get("VERBENA_PROGRAM") or (str(BUILT) if BUILT.exists() else shutil.which("verbena"))
    if not found:
        raise TableError(
            "cannot find the program `verbena`, which judges the rows: install it (Debian package verbena, or "
            "`make programs` and `cmake --install build`), or set VERBENA_PROGRAM to its path"
        )
    return found


def _needed(library: str) -> str:
    package = PACKAGES.get(library)
    install = f"install Debian's package {package}" if package else "install the package that has it"
    return f"{program()}, which judges the rows, needs {library}: {install}"


def judged(table: Table) -> Judged:
    """Return the judge's verdicts on a table."""
    try:
        ran = subprocess.run(
            [program(), "check", "--json", "-"], input=table.text, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise TableError(f"cannot run {error.filename}: {error.strerror}") from None
    if lacks := NOT_LOADED.search(ran.stderr):
        raise TableError(_needed(lacks[1]))
    if ran.returncode != 0:
        said = ran.stderr.strip().removeprefix("verbena: ").removeprefix("-: ").replace("\n", " ")
        if said.startswith("no column"):
            said += ": not a table of an experiment, so name a file of `verbena bench` or bench/published"
        raise TableError(f"{table.path}: {said or f'verbena check ended with status {ran.returncode}'}")
    document = json.loads(ran.stdout)
    verdicts = [Verdict(row["validity"], row["reason"]) for row in document["rows"]]
    return Judged(document["experiment"], verdicts)
