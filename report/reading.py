# SPDX-License-Identifier: Apache-2.0
"""Reads a result file, CSV or JSON, into a `Table`, and never more of it than the limits below.

A file that is empty, truncated, foreign or too large is a `TableError`, whose one line says where
the fault is and what to do. The text is read once, also from a pipe, and the judge gets the same
text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from report.tables import Table, TableError

# docs/limits.md lists these.
BYTES_MAX = 32 << 20  # in one file
ALL_BYTES_MAX = 64 << 20  # in all files together
ROWS_MAX = 5000  # in one file
FILES_MAX = 64

csv.field_size_limit(BYTES_MAX)

Contents = tuple[tuple[str, ...], dict[str, str], list[tuple[str, dict[str, str]]]]


def read_table(path: Path) -> Table:
    """Read the table in `path`; a TableError names the file and the place in one line."""
    try:
        text = _text(path)
        header, environment, items = _from_json(text) if text.lstrip().startswith("{") else _from_csv(text)
        if not items:
            raise TableError("no rows: the file has a header only, so measure again")
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    return Table(path, header, environment, items, text)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise TableError(
            f"more than {BYTES_MAX >> 20} MiB: a result table is far smaller, so name one of `verbena bench`, or "
            "measure fewer cells at a time"
        )
    if not data.strip():
        raise TableError("empty: the program that should have written it was interrupted, so measure again")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableError("not UTF-8 text: name a CSV or JSON file of `verbena bench`") from None
    if "\0" in text:
        raise TableError("a byte 0 in the text: name a CSV or JSON file of `verbena bench`")
    return text


def _from_csv(text: str) -> Contents:
    environment: dict[str, str] = {}
    place = ""

    def table_lines() -> Iterator[str]:
        nonlocal place
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            if line.startswith("#"):
                key, colon, value = line[1:].partition(":")
                if colon:
                    environment[key.strip()] = value.strip()
            elif line.strip():
                place = f"line {number}"
                yield line

    header: list[str] = []
    items: list[tuple[str, dict[str, str]]] = []
    try:
        for cells in csv.reader(table_lines()):
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) != len(header):
                raise TableError(f"{place}: {len(cells)} cells under {len(header)} columns")
            else:
                items.append((place, dict(zip(header, cells, strict=True))))
                _bound(items)
    except csv.Error as error:
        raise TableError(f"{place}: not CSV: {error}") from None
    if not header:
        raise TableError("empty: no header line, so measure again")
    return tuple(header), environment, items


def _bound(items: list[object]) -> None:
    if len(items) > ROWS_MAX:
        raise TableError(f"more than {ROWS_MAX} rows: give the report a part of them")


def _from_json(text: str) -> Contents:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        # An unterminated string is reported where it begins.
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        cut = ", and the file ends there: it is truncated, so measure again" if ends else ""
        raise TableError(f"line {error.lineno}: not JSON: {error.msg}{cut}") from None
    except (RecursionError, ValueError):
        raise TableError("not JSON of `verbena bench`: nested too deeply, or a number too long") from None
    items, environment = document.get("rows"), document.get("environment") or {}
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TableError('JSON without a list "rows" of objects: name a file that `verbena bench ... --json` wrote')
    if not isinstance(environment, dict):
        raise TableError('"environment" is not an object')
    _bound(items)
    header = tuple(dict.fromkeys(name for item in items for name in item))
    rows = [
        (f"row {number}", {key: _flat(value) for key, value in item.items()}) for number, item in enumerate(items, 1)
    ]
    return header, {key: _flat(value) for key, value in environment.items()}, rows


def _flat(value: object) -> str:
    """Return a JSON value as its cell in CSV; a list or an object stays JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)
