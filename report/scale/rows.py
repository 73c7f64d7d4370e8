"""Reading tables of many clients: CSV or JSON of `verbena bench scale` (or `performance_test --json`), or the published CSV.

A `Row` is one cell: a transport, a number of clients, an offered rate (0: each client sends as its echoes come). What a file does not say
stays None.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from report.tables import TableError

KEYS = ("clients", "success_percent")
PUBLISHED_FILE = Path(__file__).resolve().parent.parent / "data" / "connection_scale.csv"
WORDS = {"experiment", "transport", "connect", "engine", "without", "validity", "reason"}


@dataclass(frozen=True)
class Row:
    transport: str  # rdma, tcp; empty if the table does not say
    clients: int
    rate: float
    validity: str
    reason: str
    values: dict[str, float] = field(default_factory=dict)
    engine: str = ""  # of the server: epoll, threads
    apart: str = ""  # what this row leaves out on purpose, as TLS; empty for most

    def get(self, name: str) -> float | None:
        return self.values.get(name)

    def interval(self, name: str) -> tuple[float, float, float]:
        """Low, middle, high; the same three times without an interval."""
        middle = self.values[name]
        return self.values.get(f"{name}_low", middle), middle, self.values.get(f"{name}_high", middle)

    @property
    def shared(self) -> int:
        """The connections that logical clients share; 0 where each has its own."""
        return int(self.values.get("shared_qps", 0))

    @property
    def usable(self) -> bool:
        """Whether the row may bear out or refute anything."""
        return self.validity == "valid"


@dataclass(frozen=True)
class Source:
    label: str
    environment: dict[str, str]
    rows: tuple[Row, ...]
    published: bool = False

    @property
    def kind_text(self) -> str:
        if self.published:
            return "published figures, the publishers' own program"
        kind = self.environment.get("kind", "")
        device = self.environment.get("device", "")
        return f"{device}, {kind} NIC" if kind in ("software", "hardware") else "device not stated to be hardware or software"

    def cells(self, transport: str, paced: bool = False) -> list[Row]:
        """Usable rows of a transport by clients: those that sent as fast as echoes came, or those at an offered rate (the lowest).

        Only rows of the event-driven server, whose clients have connections of their own and nothing is left out.
        """
        rows = [row for row in self.plain if row.transport == transport and (row.rate > 0) == paced and row.engine != "threads"]
        lowest = min((row.rate for row in rows), default=0.0)
        return sorted((row for row in rows if row.rate == lowest), key=lambda row: row.clients)

    @property
    def plain(self) -> list[Row]:
        return [row for row in self.rows if row.usable and not row.shared and not row.apart]

    def threads(self) -> list[Row]:
        """Usable rows of the engine with a thread for each client, over RDMA, that sent as fast as echoes came."""
        rows = [row for row in self.plain if row.transport == "rdma" and row.engine == "threads" and not row.rate]
        return sorted(rows, key=lambda row: row.clients)

    @property
    def transports(self) -> list[str]:
        return sorted({row.transport for row in self.rows})


def is_scale(path: Path) -> bool:
    """Whether the file is a table of this experiment, by its columns. A file that cannot be read is for the other reader to refuse."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.lstrip().startswith("{"):
            rows = json.loads(text).get("rows") or [{}]
            return isinstance(rows[0], dict) and all(key in rows[0] for key in KEYS)
        header = text.splitlines()[0].split(",") if text else []
        return all(key in header for key in KEYS)
    except (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError):
        return False


def read(path: Path, label: str | None = None) -> Source:
    """The source in `path`; raises TableError with one line that names the file and the place."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        environment, items = _from_json(text) if text.lstrip().startswith("{") else _from_csv(text)
        rows = tuple(_row(item, number) for number, item in enumerate(items, 1))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise TableError(f"{path}: {reason}") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    if not rows:
        raise TableError(f"{path}: no rows")
    return Source(label or path.stem, environment, rows, published=path != PUBLISHED_FILE and rows == published().rows)


@cache
def published() -> Source:
    """The bundled copy of the published table."""
    return Source("published", {}, read(PUBLISHED_FILE).rows, published=True)


def _from_csv(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    environment: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            key, colon, value = line[1:].partition(":")
            if colon:
                environment[key.strip()] = value.strip()
        elif line.strip():
            lines.append(line)
    items = list(csv.DictReader(lines))
    for number, item in enumerate(items, 1):
        if None in item or None in item.values():
            raise TableError(f"row {number}: not as many cells as columns")
    return environment, items


def _from_json(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise TableError(f"line {error.lineno}: not JSON: {error.msg}") from None
    rows = document.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TableError('JSON without a list "rows" of objects')
    flat = [{key: "" if value is None else str(value) for key, value in row.items() if not isinstance(value, list)} for row in rows]
    return {key: str(value) for key, value in (document.get("environment") or {}).items()}, flat


def _row(item: dict[str, str], number: int) -> Row:
    values = {}
    for name, text in item.items():
        if name in WORDS or not text:
            continue
        try:
            values[name] = float(text)
        except ValueError:
            raise TableError(f"row {number}: {name} {text!r} is not a number") from None
        if not math.isfinite(values[name]):
            raise TableError(f"row {number}: {name} {text!r} is not a finite number")
    if values.get("clients", 0) < 1:
        raise TableError(f"row {number}: no number of clients")
    # A published table brings no verdict: its rows cannot be compared with each other (`verbena check` says why).
    validity = item.get("validity") or ("valid" if "validity" in item else "not comparable")
    clients, rate = int(values["clients"]), values.get("rate", 0.0)
    stalled = "with stalled callers" if values.get("stalled") else ""
    left_out = f"without {item['without']}" if item.get("without") else ""
    apart = ", ".join(filter(None, ["in clear" if item.get("connect") == "clear" else "", left_out, stalled]))
    return Row(item.get("transport", ""), clients, rate, validity, item.get("reason", ""), values, item.get("engine", ""), apart)
