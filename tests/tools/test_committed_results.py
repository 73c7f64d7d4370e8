# SPDX-License-Identifier: Apache-2.0
"""Committed tables of `make results` have the columns that the programs write."""

import shutil
import sys
from pathlib import Path

import pytest
from programs import ROOT, Programs

sys.path.append(str(ROOT / "bench" / "results"))
from columns import complaints, header_of

RESULTS = ROOT / "docs" / "results"
# The shortest measurement of each system.
SHORT: dict[str, tuple[object, ...]] = {
    "rcud": ("--sizes", 64, "--windows", 4, "--modes", "rc", "--iters", 200, "--reps", 1),
    "scale": ("--clients", 2, "--transport", "rdma", "--seconds", 0.05, "--warmup", 0.05, "--reps", 1),
    "rpc": ("--sizes", 128, "--concurrency", 1, "--transport", "rdma", "--duration", 0.05, "--reps", 1),
    "kv": ("--sizes", 64, "--window", 1, "--ops", "get", "--proto", "eager", "--iters", 100, "--reps", 1),
}


@pytest.fixture(scope="module")
def columns(shared_programs: Programs) -> dict[str, list[str]]:
    """Return the columns that each system writes."""
    for system, options in SHORT.items():
        ran = shared_programs.run("verbena", "bench", system, "--quiet", *options, "--csv", f"{system}.csv")
        assert ran.status == 0, ran
    return {system: header_of(shared_programs.folder / f"{system}.csv") for system in SHORT}


def test_committed_results_have_the_columns_of_the_program(columns: dict[str, list[str]]) -> None:
    assert complaints(RESULTS, columns) == [], "measure again: make results"


def test_a_table_with_other_columns_is_found(
    columns: dict[str, list[str]], tmp_path: Path, shared_programs: Programs
) -> None:
    folder = tmp_path / "a-class"
    folder.mkdir()
    (folder / "steps.json").write_text('{"rcud": "rcud"}')
    shutil.copy(shared_programs.folder / "rcud.csv", folder)
    assert complaints(tmp_path, columns) == []
    text = (folder / "rcud.csv").read_text()
    (folder / "rcud.csv").write_text(text.replace("mops_low", "mops_least", 1))
    assert [each.partition(": ")[2] for each in complaints(tmp_path, columns)] == [
        "it lacks mops_low, which the program writes now",
        "the program no longer writes mops_least",
    ]
