# SPDX-License-Identifier: Apache-2.0
"""Published claims and their verdicts; each experiment has one function per claim, keyed by its id.

A verdict is "supported", "contradicted" or "not testable". A finding has the verdict, its reason
and the rows on which it rests.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field

from report.tables import PUBLISHED, Source

SUPPORTED, CONTRADICTED, NOT_TESTABLE = "supported", "contradicted", "not testable"


@dataclass(frozen=True)
class Claim:
    """One sentence of bench/published/claims.csv."""

    id: str
    system: str
    sentence: str
    needs: str  # the rows that a test of it needs


@dataclass(frozen=True)
class Finding:
    verdict: str
    because: str
    evidence: list[str] = field(default_factory=list)  # one line for each row on which it rests
    # The parts of a sentence that are judged one by one, and the same sentence under other
    # conditions.
    statements: list[Statement] = field(default_factory=list)


@dataclass(frozen=True)
class Statement:
    text: str
    finding: Finding


@dataclass(frozen=True)
class Judgement:
    claim: Claim
    finding: Finding


def read_claims(system: str) -> list[Claim]:
    with open(PUBLISHED / "claims.csv", encoding="utf-8", newline="") as file:
        claims = [
            Claim(line["id"], line["system"], line["sentence"], line["rows needed"]) for line in csv.DictReader(file)
        ]
    return [claim for claim in claims if claim.system == system]


def judge_each(source: Source, system: str, judges: dict[str, Callable[[Source], Finding]]) -> list[Judgement]:
    return [Judgement(claim, judges[claim.id](source)) for claim in read_claims(system) if claim.id in judges]
