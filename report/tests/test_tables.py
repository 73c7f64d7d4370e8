# SPDX-License-Identifier: Apache-2.0
"""Reading tables: columns, verdicts, and a one-line error for a malformed file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report import tables
from report.rcud.experiment import RCUD
from report.rcud.rows import Source
from report.tests import synthetic
from report.tests.running import read


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def published() -> tables.Source:
    source = RCUD.published()
    assert source
    return source


def test_published_table_has_exactly_ud_8192_invalid_and_ud_4096_at_window_64_suspect() -> None:
    verdicts = {(row.mode, row.msg, row.window): row.validity for row in published().rows if row.validity != "valid"}
    assert verdicts == {("UD", 8192, 4): "invalid", ("UD", 8192, 64): "invalid", ("UD", 4096, 64): "suspect"}


def test_the_published_table_is_recognised_in_any_folder(tmp_path: Path) -> None:
    copy = write(tmp_path, (tables.PUBLISHED / "rc_vs_ud.csv").read_text(encoding="utf-8"), "mine.csv")
    assert read(copy).kind == "published"


def test_a_row_without_interval_has_the_range_of_its_rounding() -> None:
    row = published().rows[0]
    assert row.interval("mops")[::2] == (pytest.approx(0.435), pytest.approx(0.445)) and not row.measured_interval


def test_csv_and_json_of_one_run_give_the_same_rows(tmp_path: Path) -> None:
    from_csv = read(write(tmp_path, synthetic.csv_text()))
    from_json = read(write(tmp_path, synthetic.json_text(), "table.json"))
    assert from_csv.rows == from_json.rows
    assert from_csv.environment == from_json.environment == synthetic.ENVIRONMENT
    assert len(from_csv.rows[0].repetitions) == 5


def test_a_verdict_that_stands_in_the_file_is_not_believed(tmp_path: Path) -> None:
    good = synthetic.row("RC", 64, 4, "local", 1.0, validity="invalid", reason="slander")
    forged = synthetic.row("UD", 64, 4, "local", 1.0) | {"mops": 2.0}
    rows_read = read(write(tmp_path, synthetic.csv_text([good, forged]))).rows
    assert (rows_read[0].validity, rows_read[0].reason, rows_read[0].usable) == ("valid", "", True)
    assert (rows_read[1].validity, rows_read[1].usable) == ("invalid", False)
    assert rows_read[1].reason.startswith("mops is 2.0, but the repetitions give 1.0")


def test_a_report_without_the_judge_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBENA_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(tables.TableError, match=r"cannot run .*none: No such file or directory"):
        read(write(tmp_path, synthetic.csv_text()))


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"device": "mlx5_0", "kind": "hardware"}, "hardware"),
        ({"device": "vb_lo (software)"}, "software"),
        ({"hardware": "false"}, "software"),
        ({"cpu": "with hardware threads"}, "unknown"),
    ],
)
def test_hardware_is_only_what_the_environment_calls_hardware(environment: dict[str, str], kind: str) -> None:
    row = replace(published().rows[0], words={"device": "mlx5_0"})
    assert Source("x", environment, (row,)).kind == kind


def test_clashing_stems_are_labelled_by_path() -> None:
    paths = [Path("table.csv"), Path("a/table.csv"), Path("other.csv")]
    assert tables.labels(paths) == ["table.csv", "a/table.csv", "other"]


def test_quoted_reason_may_hold_commas_and_comments_may_stand_anywhere(tmp_path: Path) -> None:
    table = [synthetic.row("UD", 8192, 4, "local", None, reason='lost, mostly; "all"')]
    source = read(write(tmp_path, "# first: yes\n" + synthetic.csv_text(table)))
    assert (source.rows[0].validity, source.rows[0].reason) == ("n/a", 'lost, mostly; "all"')
    assert source.environment == {"first": "yes"} | synthetic.ENVIRONMENT


HEADER = "experiment,mode,msg,window,iters,mops,gib\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty: the program that should have written it was interrupted, so measure again"),
        ("a,b\n1,2\n", "no column 'experiment': not a table of an experiment"),
        (HEADER, "no rows"),
        (HEADER + "msg_sweep,RC,32,4\n", "line 2: 4 cells under 7 columns"),
        (HEADER + "msg_sweep,XX,32,4,1,1.0,0.1\n", "line 2: mode 'XX' is not one of RC, UD, UD-seg"),
        (HEADER + "msg_sweep,RC,32,4,1,fast,0.1\n", "line 2: mops 'fast' is not a number"),
        (HEADER + "msg_sweep,RC,32,4,1,nan,0.1\n", "not a finite number"),
        (HEADER + "msg_sweep,RC,0,4,1,1.0,0.1\n", "msg '0' is not a positive whole number"),
        (HEADER + "latency,RC,32,4,1,1.0,0.1\n", "experiment 'latency' is not one of msg_sweep, qp_sweep"),
        (HEADER + "msg_sweep,RC,32,4,1,1.0,0.1\n" * 2, "line 3: the same cell as line 2"),
        ("{", "not JSON"),
        ('{"rows": 3}', 'without a list "rows"'),
    ],
)
def test_malformed_input_is_a_one_line_error_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(tables.TableError) as error:
        read(write(tmp_path, text))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
