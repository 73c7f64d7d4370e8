# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of `verbena bench rcud` as a user's script would, with the standard library."""

import csv
import json
from pathlib import Path

FIRST_COLUMNS = "experiment,mode,msg,window,iters,mops,gib"
FURTHER_COLUMNS = (
    *(
        "op",
        "window_mode",
        "device",
        "mtu",
        "posted",
        "completed",
        "delivered",
        "lost",
        "duplicated",
        "reordered",
        "spread",
    ),
    *("p50_us", "p99_us", "rtt_before_ns", "rtt_after_ns", "rtt_class", "validity", "reason", "repetitions"),
)

Row = dict[str, str]


def read_csv(path: Path) -> tuple[list[Row], dict[str, str]]:
    """Return the rows and the environment."""
    lines = path.read_text().splitlines()
    table = [line for line in lines if not line.startswith("#")]
    trailer = [line.removeprefix("# ").partition(": ")[::2] for line in lines if line.startswith("#")]
    return list(csv.DictReader(table)), dict(trailer)


def read_json(path: Path) -> tuple[list[dict], dict[str, str]]:
    document = json.loads(path.read_text())
    return document["rows"], document["environment"]


def only(rows: list[Row], **wanted: object) -> Row:
    (row,) = (row for row in rows if all(row[name] == str(value) for name, value in wanted.items()))
    return row


def check_account(row: Row, iterations: int) -> None:
    """Fail the test unless the receiver's numbers add up and the rates follow from them."""
    posted, completed, delivered, lost = (int(row[name]) for name in ("posted", "completed", "delivered", "lost"))
    assert posted == completed == iterations, row
    assert delivered + lost == posted, row
    assert row["duplicated"] == row["reordered"] == "0", row
    if row["mode"] == "RC" or row["window_mode"] == "credit":
        assert lost == 0, row
    assert delivered > 0 and float(row["mops"]) > 0, row
    assert abs(float(row["gib"]) - float(row["mops"]) * 1e6 * int(row["msg"]) / 2**30) <= 1e-6 * float(row["gib"]), row
    # Other tests may disturb the measurement. Then the row is suspect; it must never be invalid.
    assert row["validity"] in ("valid", "suspect"), row
    assert row["validity"] == "valid" or row["reason"], row
    if lost > 0.01 * posted:
        assert row["validity"] == "suspect", row
