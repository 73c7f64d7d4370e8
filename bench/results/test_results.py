# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from columns import complaints
from machine import machine_class
from steps import STEPS
from verdicts import verdicts

COLUMNS = {"rcud": ["mode", "msg", "mops"], "kv": ["op", "value_bytes"]}


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """Return a folder of results with two tables that have the program's columns."""
    folder = tmp_path / "2-cores-none-far"
    folder.mkdir()
    (folder / "steps.json").write_text(json.dumps({"rcud": "rcud", "kv": "kv"}))
    (folder / "rcud.csv").write_text("mode,msg,mops\nRC,64,1\n# commit: x\n")
    (folder / "kv.csv").write_text("op,value_bytes\nGET,64\n")
    return tmp_path


def test_results_that_are_absent_or_have_the_columns_are_good(committed: Path, tmp_path: Path) -> None:
    assert complaints(committed, COLUMNS) == []
    assert complaints(tmp_path / "absent", COLUMNS) == []


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("mode,msg", "rcud.csv: it lacks mops, which the program writes now"),
        ("mode,msg,mops,gib", "rcud.csv: the program no longer writes gib"),
        ("", "it lacks mode, msg, mops"),
    ],
)
def test_a_missing_or_unknown_column_is_named(committed: Path, header: str, says: str) -> None:
    (committed / "2-cores-none-far" / "rcud.csv").write_text(header)
    (complaint,) = complaints(committed, COLUMNS)
    assert says in complaint


def test_tables_and_their_list_agree(committed: Path) -> None:
    folder = committed / "2-cores-none-far"
    (folder / "kv.csv").rename(folder / "stray.csv")
    first, second = complaints(committed, COLUMNS)
    assert "absent" in first and "does not list it" in second


@pytest.mark.parametrize(
    ("cores", "cpu", "rtt_classes", "name"),
    [
        (2, "AMD EPYC", ["far", "near", "far"], "2-cores-amd-epyc-far"),
        (64, "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", ["near"], "64-cores-intel-xeon-platinum-8370c-near"),
        (8, "AMD Ryzen 7 5800X 8-Core Processor", ["smt"], "8-cores-amd-ryzen-7-5800x-smt"),
        (1, "", [], "1-cores-unknown-unknown"),
    ],
)
def test_a_class_is_named_after_the_facts(cores: int, cpu: str, rtt_classes: list[str], name: str) -> None:
    assert machine_class(cores, cpu, rtt_classes) == name


def test_the_steps_take_three_quarters_of_an_hour_and_have_names_of_their_own() -> None:
    assert sum(step.minutes for step in STEPS) <= 46
    assert len({step.name for step in STEPS}) == len(STEPS)


def judgement(claim: str, verdict: str, evidence: int) -> dict:
    finding = {"verdict": verdict, "because": f"{evidence} rows", "evidence": ["row"] * evidence}
    return {"claim": {"id": claim, "sentence": "a | b"}, "finding": finding}


def test_the_verdict_is_that_of_the_table_that_decides_the_claim() -> None:
    lines = verdicts(
        [
            ("scale", judgement("S3.10", "not testable", 9)),
            ("threads", judgement("S3.10", "supported", 1)),
            ("threads", judgement("S3.9a", "not testable", 0)),
            ("capacity", judgement("S3.9a", "not testable", 2)),
        ]
    ).splitlines()
    assert lines[2:] == [
        "| S3.9a | a \\| b | not testable | 2 rows | capacity |",
        "| S3.10 | a \\| b | supported | 1 rows | threads |",
    ]
