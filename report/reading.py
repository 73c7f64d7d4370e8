# SPDX-License-Identifier: Apache-2.0
"""Reads the bytes of a result file, and never more of them than the limits below.

They are read once, also from a pipe, and go to `verbena check` as they are (judge.py), the only
reader of tables: rows that are shown are those that were judged.
"""

from __future__ import annotations

from pathlib import Path

from report.tables import TableError

# docs/limits.md lists these.
BYTES_MAX = 32 << 20  # in one file
ALL_BYTES_MAX = 64 << 20  # in all files together
ROWS_MAX = 5000  # in one file
FILES_MAX = 64


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; a TableError says in one line why they are no table."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise TableError(
            f"{path}: more than {BYTES_MAX >> 20} MiB: a result table is far smaller, so name one of `verbena bench`, "
            "or measure fewer cells at a time"
        )
    if not data.strip():
        raise TableError(f"{path}: empty: the program that should have written it was interrupted, so measure again")
    return data
