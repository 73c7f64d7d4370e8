"""Reads result tables: CSV or JSON of `verbena bench`, or a published CSV.

A `Table` is a file as it is: columns, environment, and the cells of each row as text. A `Row` is
one row as numbers and words; an experiment's own `Row` adds names for its columns. A `Source` is
one table with its label. A value that the file does not have is None; nothing is guessed.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

PUBLISHED = Path(__file__).resolve().parent.parent / "bench" / "published"
NOT_COMPARABLE = "not comparable"


class TableError(Exception):
    """The file is not a table of this experiment; the message is one line for the user."""


@dataclass(frozen=True)
class Table:
    path: Path
    header: tuple[str, ...]
    environment: dict[str, str]
    # For each row its place in the file, for messages, and its cells by column.
    items: list[tuple[str, dict[str, str]]]


@dataclass(frozen=True)
class Row:
    words: dict[str, str]  # columns of text
    values: dict[str, float]  # columns of numbers; an empty cell has no entry
    validity: str = "valid"
    reason: str = ""

    def get(self, name: str) -> float | None:
        return self.values.get(name)

    def interval(self, name: str) -> tuple[float, float, float]:
        """Return low, middle and high; all three are the same value if there is no interval."""
        middle = self.values[name]
        return self.values.get(f"{name}_low", middle), middle, self.values.get(f"{name}_high", middle)

    @property
    def usable(self) -> bool:
        """True if the row may support or contradict a claim."""
        return self.validity == "valid"

    @property
    def device(self) -> str | None:
        return self.words.get("device") or None


RowType = TypeVar("RowType")


@dataclass(frozen=True)
class Source(Generic[RowType]):
    """One table with its label."""

    label: str
    environment: dict[str, str]
    rows: tuple[RowType, ...]
    published: bool = False

    @property
    def kind(self) -> str:
        """Software, hardware, published or unknown; hardware only if the environment says so."""
        if self.published:
            return "published"
        for key, value in self.environment.items():
            named = any(word in key.lower() for word in ("device", "kind", "nic", "hardware", "software", "backend"))
            text = value.lower()
            if named and "software" in text:
                return "software"
            if named and "hardware" in text:
                return "hardware"
            if key.lower() in ("hardware", "software") and text in ("true", "yes", "false", "no"):
                return "hardware" if (key.lower() == "hardware") == (text in ("true", "yes")) else "software"
        devices = {row.device for row in self.rows if row.device}
        if devices and all(device.startswith(("vb_", "rxe", "siw")) for device in devices):
            return "software"
        return "unknown"

    @property
    def kind_text(self) -> str:
        return {
            "software": "software NIC",
            "hardware": "hardware NIC",
            "published": "published figures, the publishers' own",
            "unknown": "device not stated to be hardware or software",
        }[self.kind]

    @property
    def device_text(self) -> str:
        """Return the devices and their kind, in words."""
        devices = ", ".join(sorted({row.device for row in self.rows if row.device})) or self.environment.get(
            "device", ""
        )
        return f"{devices}, {self.kind_text}" if devices else self.kind_text


def read_table(path: Path) -> Table:
    """Read the table in `path`; a TableError names the file and the place in one line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        header, environment, items = _from_json(text) if text.lstrip().startswith("{") else _from_csv(text)
        if not items:
            raise TableError("no rows")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise TableError(f"{path}: {reason}") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    return Table(path, header, environment, items)


def rows_of(
    table: Table, row_type: type[RowType], words: tuple[str, ...], needed: tuple[str, ...]
) -> tuple[RowType, ...]:
    """Return the rows of a table in an experiment's type.

    `words` are the columns of text. The numbers `needed` must be present and positive. Rows of a
    table without verdicts, such as a published one, are "not comparable" until the experiment's
    reader judges them.
    """
    rows = []
    for place, item in table.items:
        try:
            values = {
                name: number(text, name, least=-math.inf)
                for name, text in item.items()
                if text and not text.startswith("[") and name not in (*words, "validity", "reason")
            }
            for name in needed:
                if values.get(name, 0) <= 0:
                    raise TableError(f"no {name}")
        except TableError as error:
            raise TableError(f"{table.path}: {place}: {error}") from None
        validity = item.get("validity") or ("valid" if "validity" in table.header else NOT_COMPARABLE)
        rows.append(row_type({name: item.get(name, "") for name in words}, values, validity, item.get("reason", "")))
    return tuple(rows)


def number(text: str, name: str, least: float = 0) -> float:
    try:
        value = float(text)
    except ValueError:
        raise TableError(f"{name} {text!r} is not a number") from None
    if not math.isfinite(value) or value < least:
        raise TableError(f"{name} {text!r} is not a finite number{' of 0 or more' if least == 0 else ''}")
    return value


def labels(paths: list[Path]) -> list[str]:
    """Return the stem of each file, or its whole path if two stems are equal."""
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else str(path) for path, stem in zip(paths, stems, strict=True)]


Contents = tuple[tuple[str, ...], dict[str, str], list[tuple[str, dict[str, str]]]]


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
    items = []
    for cells in csv.reader(table_lines()):
        if not header:
            header = [cell.strip() for cell in cells]
        elif len(cells) == len(header):
            items.append((place, dict(zip(header, cells, strict=True))))
        else:
            raise TableError(f"{place}: {len(cells)} cells under {len(header)} columns")
    if not header:
        raise TableError("empty: no header line")
    return tuple(header), environment, items


def _from_json(text: str) -> Contents:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise TableError(f"line {error.lineno}: not JSON: {error.msg}") from None
    items, environment = document.get("rows"), document.get("environment") or {}
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TableError('JSON without a list "rows" of objects')
    if not isinstance(environment, dict):
        raise TableError('"environment" is not an object')
    header = tuple(dict.fromkeys(name for item in items for name in item))
    rows = [
        (f"row {number}", {key: _flat(value) for key, value in item.items()}) for number, item in enumerate(items, 1)
    ]
    return header, {key: _flat(value) for key, value in environment.items()}, rows


def _flat(value: object) -> str:
    """Return a JSON value as its cell in CSV; a list stays JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)
