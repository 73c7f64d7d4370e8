"""Asks `verbena check`, the one judge of rows, for its verdicts.

A verdict that stands in a file counts for nothing: a file can be edited.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from report.tables import TableError

BUILT = Path(__file__).resolve().parent.parent / "build" / "verbena"


class Verdict(NamedTuple):
    validity: str  # valid, n/a, suspect, invalid
    reason: str


def program() -> str:
    """Return the path of `verbena`: the one that runs this report, or is built, or is installed."""
    found = os.environ.get("VERBENA_PROGRAM") or (str(BUILT) if BUILT.exists() else shutil.which("verbena"))
    if not found:
        raise TableError("cannot find the program `verbena`, which judges the rows: set VERBENA_PROGRAM to its path")
    return found


def verdicts(path: Path) -> list[Verdict]:
    """Return the verdict on each row of the table in `path`, in the order of the file."""
    try:
        ran = subprocess.run([program(), "check", "--json", str(path)], capture_output=True, text=True, check=False)
    except OSError as error:
        raise TableError(f"cannot run {error.filename}: {error.strerror}") from None
    if ran.returncode != 0:
        raise TableError(ran.stderr.strip().removeprefix("verbena: "))
    return [Verdict(row["validity"], row["reason"]) for row in json.loads(ran.stdout)["rows"]]
