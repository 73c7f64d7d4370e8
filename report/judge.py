# SPDX-License-Identifier: Apache-2.0
"""Asks `verbena check`, the one judge of rows, for a table as it has read and judged it.

A verdict that stands in a file counts for nothing: a file can be edited.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from report.reading import ROWS_MAX, read_bytes
from report.tables import Item, Table, TableError

BUILT = Path(__file__).resolve().parent.parent / "build" / "verbena"
TIME_MAX_S = 120  # the largest table takes 5 s on a quiet machine
LARGE_BYTES = 4 << 20  # the user sees that a table of this size is being judged

# The loader's message, and the Debian packages of the libraries that every program of ours needs.
NOT_LOADED = re.compile(r"error while loading shared libraries: ([^:\s]+)")
PACKAGES = {"libibverbs.so.1": "libibverbs1", "librdmacm.so.1": "librdmacm1", "libverbena-nic.so": "libverbena-nic"}


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


def read_table(path: Path) -> Table:
    """Read and judge the table in a file; a TableError names the file and the fault in one line."""
    return judged(path, read_bytes(path))


def judged(path: Path, data: bytes) -> Table:
    """Return the table whose bytes these are, with the judge's verdict on each row."""
    if len(data) >= LARGE_BYTES:
        print(f"{path}: {len(data) >> 20} MiB are being judged", file=sys.stderr, flush=True)
    document = json.loads(_checked(path, data))
    items = [
        Item(
            f"row {number}",
            row["values"],
            tuple(row["values"].get(name) or "" for name in document["cell"]),
            row.get("rounding", {}),
            row["validity"],
            row["reason"],
        )
        for number, row in enumerate(document["rows"], 1)
    ]
    return Table(path, document["experiment"], document["kind"], document["environment"], items)


def _checked(path: Path, data: bytes) -> bytes:
    """Return the JSON that `verbena check` prints about a table."""
    command = [program(), "check", "--json", "--table", "--rows-max", str(ROWS_MAX), "-"]
    try:
        # A file and no pipe: the program may end before it has read everything.
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            ran = subprocess.run(command, stdin=file, capture_output=True, check=False, timeout=TIME_MAX_S)
    except subprocess.TimeoutExpired:
        raise TableError(
            f"{path}: {command[0]}, which judges the rows, did not end within {TIME_MAX_S} s: name a part of the rows"
        ) from None
    except OSError as error:
        raise TableError(f"cannot run {error.filename or command[0]}: {error.strerror}") from None
    if ran.returncode == 0:
        return ran.stdout
    errors = ran.stderr.decode(errors="replace")
    if lacks := NOT_LOADED.search(errors):
        raise TableError(_needed(lacks[1]))
    if ran.returncode < 0:
        raise TableError(
            f"{path}: {command[0]}, which judges the rows, was ended by {_name_of(-ran.returncode)}: if nobody killed "
            "it, this is a fault of ours, so report it with the file"
        )
    said = errors.strip().removeprefix("verbena: ").removeprefix("-: ").replace("\n", " ")
    if said.startswith("no column"):
        said += ": not a table of an experiment, so name a file of `verbena bench` or bench/published"
    raise TableError(f"{path}: {said or f'verbena check ended with status {ran.returncode} and said nothing'}")


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
