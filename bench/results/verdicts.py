# SPDX-License-Identifier: Apache-2.0
"""One verdict for each claim from the tables of several measurements."""

from __future__ import annotations

import re

Judgement = dict
OPEN = "not testable"


def weight(judgement: Judgement) -> tuple[bool, int]:
    """Order judgements on one claim: a table that decides it first, then one with more evidence."""
    finding = judgement["finding"]
    return finding["verdict"] != OPEN, len(finding["evidence"])


def place(claim: str) -> list[object]:
    """Return a key by which S3.9a is before S3.10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", claim)]


def verdicts(judgements: list[tuple[str, Judgement]]) -> str:
    """Return Markdown with the verdict on each claim; a judgement comes with its table's name."""
    best: dict[str, tuple[str, Judgement]] = {}
    for table, each in judgements:
        claim = each["claim"]["id"]
        if claim not in best or weight(each) > weight(best[claim][1]):
            best[claim] = (table, each)
    lines = ["| claim | sentence | verdict | because | table |", "|---|---|---|---|---|"]
    for claim in sorted(best, key=place):
        table, each = best[claim]
        finding = each["finding"]
        cells = (claim, each["claim"]["sentence"], finding["verdict"], finding["because"], table)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
