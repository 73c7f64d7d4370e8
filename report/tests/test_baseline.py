# SPDX-License-Identifier: Apache-2.0
"""A report beside an earlier run: what changed beyond noise, and the exit status. SYNTHETIC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report.baseline import NO_CHANGE, NOT_COMPARED, compare
from report.experiments import read_sources
from report.tests import synthetic
from report.tests.running import run

SIZES = (64, 1024, 4096)
FAR = {"rtt_before_ns": 380, "rtt_after_ns": 390, "rtt_class": "far"}


def table(rate: float, sizes: tuple[int, ...] = SIZES, **changes: object) -> str:
    rows = [synthetic.row(mode, size, 64, "local", rate, **changes) for mode in ("RC", "UD") for size in sizes]
    return synthetic.json_text(rows)


def against(folder: Path, old: str, new: str, *more: str) -> tuple[int, str, str, list[dict[str, object]]]:
    (folder / "old.json").write_text(old, encoding="utf-8")
    (folder / "new.json").write_text(new, encoding="utf-8")
    files = ("new.json", "-o", "page.html", "--plots", "plots", "--json", "facts.json")
    done = run(*files, "--baseline", "old.json", *more, cwd=folder)
    facts = folder / "facts.json"
    found = json.loads(facts.read_text(encoding="utf-8"))["changes"] if facts.exists() else []
    return done.returncode, done.stdout, done.stderr, found


def test_a_slower_run_is_a_regression_on_the_page_on_the_terminal_and_in_json(tmp_path: Path) -> None:
    status, out, _, found = against(tmp_path, table(2.0), table(1.5))
    assert status == 1
    lines = out.splitlines()
    assert len(lines) == 7 and lines[-1].startswith("6 regressions, 0 improvements, 0 without a change")
    assert "regression: rcud RC SEND 64 B, window 64, local, Message rate (Mops): -25.0 % [-28.7, -21.1]" in lines
    assert {change["verdict"] for change in found} == {"regression"}
    assert found[0]["bounds"] == pytest.approx([0.7132, 0.75, 0.7887], abs=0.001)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Changes since the baseline" in page and '<span class="mark bad">regression</span>' in page


def test_a_faster_run_and_an_equal_one_have_no_regression(tmp_path: Path) -> None:
    status, out, _, found = against(tmp_path, table(2.0), table(3.0))
    assert status == 0 and {change["verdict"] for change in found} == {"improvement"}
    assert out.splitlines()[-1].startswith("0 regressions, 6 improvements")
    status, out, _, found = against(tmp_path, table(2.0), table(2.0))
    assert status == 0 and {change["verdict"] for change in found} == {"no change"}


def test_intervals_that_overlap_are_noise(tmp_path: Path) -> None:
    status, _, _, found = against(tmp_path, table(2.0), table(1.94))
    assert status == 0 and {change["verdict"] for change in found} == {"no change"}


def test_a_regression_within_the_tolerance_is_none(tmp_path: Path) -> None:
    assert against(tmp_path, table(2.0), table(1.8), "--tolerance", "4")[0] == 1
    assert against(tmp_path, table(2.0), table(1.8), "--tolerance", "10")[0] == 0


def test_rows_that_are_not_valid_or_are_new_or_far_are_not_compared(tmp_path: Path) -> None:
    rows = json.loads(table(1.0, (*SIZES, 128)))
    rows["rows"][0]["mops"] = 9.0  # a forgery: RC of 64 B
    status, _, _, found = against(tmp_path, table(1.0), json.dumps(rows))
    reasons = {change["where"]: change["reason"] for change in found if change["verdict"] == "not compared"}
    assert status == 0
    assert reasons["RC SEND 64 B, window 64, local"].startswith("this row is invalid: mops is 9.0")
    assert reasons["UD SEND 128 B, window 64, local"] == "the baseline has no such row" and len(reasons) == 3


def test_a_baseline_in_which_no_row_can_be_compared_cannot_be_used(tmp_path: Path) -> None:
    for old in (table(1.0, (32,)), table(1.0, **FAR)):
        status, _, error, _ = against(tmp_path, old, table(1.0))
        assert status == 2 and error.count("\n") == 1 and "old.json: no row can be compared" in error, error


RESULTS = sorted((Path(__file__).resolve().parent.parent.parent / "docs" / "results").glob("*/*.csv"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_committed_result_has_no_change_since_itself(path: Path) -> None:
    compared = compare(read_sources([path]), [path])
    found = compared.changes
    assert compared.machines == [] and [source.label for source in compared.baseline] == [path.stem]
    assert {change.verdict for change in found} - {NOT_COMPARED} == {NO_CHANGE}
    assert all(change.reason != "the baseline has no such row" for change in found)


def test_rows_of_different_numbers_of_queue_pairs_are_not_compared(tmp_path: Path) -> None:
    """One queue pair at half the rate was an improvement over as many of ten."""
    old = [synthetic.row_of_queue_pairs("RC", qps, rate) for qps, rate in ((1, 4.0), (10, 1.0))]
    new = [synthetic.row_of_queue_pairs("RC", 1, 2.0)]
    status, out, _, found = against(tmp_path, synthetic.json_text(old), synthetic.json_text(new))
    assert status == 1 and len(found) == 1 and "-50.0 %" in out
    new = [synthetic.row_of_queue_pairs("RC", 1, 4.0), synthetic.row_of_queue_pairs("RC", 1, 4.0, senders=2)]
    status, _, _, found = against(tmp_path, synthetic.json_text(old), synthetic.json_text(new))
    assert status == 0 and [change["verdict"] for change in found] == ["no change", "not compared"]


def test_two_rows_of_the_baseline_in_one_cell_are_refused(tmp_path: Path) -> None:
    (tmp_path / "second.json").write_text(table(3.0, (64,)), encoding="utf-8")
    status, _, error, _ = against(tmp_path, table(2.0), table(2.0), "--baseline", "second.json")
    assert status == 2 and error.count("\n") == 1
    assert "second: two rows of the baseline are rcud RC SEND 64 B, window 64, local: name one run only" in error


def test_a_baseline_that_cannot_be_read_is_no_regression(tmp_path: Path) -> None:
    status, _, error, _ = against(tmp_path, "{", table(1.0))
    assert status == 2 and "old.json: not valid JSON" in error


def test_a_baseline_of_another_machine_is_named_with_what_differs(tmp_path: Path) -> None:
    """The page did not say what it compared with."""
    old = json.loads(table(2.0))
    old["environment"] |= {"cpu": "slow \x1b[31m<b>", "kernel": "6.1"}
    status, out, _, _ = against(tmp_path, json.dumps(old), table(2.0))
    assert status == 0 and out.splitlines()[0].startswith("another machine: cpu was slow") and "\x1b" not in out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<strong>old</strong> <span>baseline, 6 rows</span>" in page
    assert "Another machine: cpu was slow \x1b[31m&lt;b&gt;, and is none." in page and "kernel was" not in page
    facts = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))["baseline"]
    assert [source["label"] for source in facts["sources"]] == ["old"] and len(facts["machines"]) == 1


def test_help_documents_the_exit_status(tmp_path: Path) -> None:
    text = run("--help", cwd=tmp_path).stdout
    assert "1  the page was written, and a figure is worse than in the baseline" in text
