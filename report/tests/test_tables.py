# SPDX-License-Identifier: Apache-2.0
"""Reading tables: columns, verdicts, and a one-line error for a malformed file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from report import tables
from report.rcud.experiment import RCUD
from report.tests import synthetic
from report.tests.running import read, run

HEADER = "experiment,mode,msg,window,iters,mops,gib\n"


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
    rows = synthetic.rows()
    from_csv = read(write(tmp_path, synthetic.csv_text(rows)))
    from_json = read(write(tmp_path, synthetic.json_text(rows), "table.json"))
    for one, other in zip(from_csv.rows, from_json.rows, strict=True):
        assert replace(one, repetitions=()) == replace(other, repetitions=())
    assert from_csv.environment == from_json.environment == synthetic.ENVIRONMENT
    assert len(from_csv.rows[0].repetitions) == 5


def test_a_verdict_that_stands_in_the_file_is_not_believed(tmp_path: Path) -> None:
    good = synthetic.row("RC", 64, 4, "local", 1.0, validity="invalid", reason="slander")
    forged = synthetic.row("UD", 64, 4, "local", 1.0) | {"mops": 2.0}
    rows_read = read(write(tmp_path, synthetic.csv_text([good, forged]))).rows
    assert (rows_read[0].validity, rows_read[0].reason, rows_read[0].usable) == ("valid", "", True)
    assert (rows_read[1].validity, rows_read[1].usable) == ("invalid", False)
    assert rows_read[1].reason.startswith("mops is 2.0, but the repetitions give 0.99")


def test_a_report_without_the_judge_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBENA_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(tables.TableError, match=r"cannot run .*none: No such file or directory"):
        read(write(tmp_path, synthetic.csv_text()))


@pytest.mark.parametrize(
    ("environment", "device", "kind"),
    [
        ({"device": "mlx5_0", "kind": "Hardware"}, "mlx5_0", "hardware"),
        ({"device": "vb_lo (software)"}, "", "software"),
        ({"device": "mlx5_0", "kind": "software"}, "mlx5_0", "software"),
        ({"cpu": "with hardware threads"}, "mlx5_0", "unknown"),
        ({"nic": "hardware"}, "mlx5_0", "unknown"),
        ({"Device kind": "Hardware"}, "mlx5_0", "unknown"),
        ({"nic": "hardware", "device": "vb_lo", "kind": "software"}, "vb_lo", "software"),
        ({"kind": "hardware", "device": "VB_LO"}, "", "software"),
    ],
)
def test_hardware_is_only_what_the_judge_calls_hardware(
    tmp_path: Path, environment: dict[str, str], device: str, kind: str
) -> None:
    table = [synthetic.row("RC", 64, 4, "local", 1.0, device=device)]
    assert read(write(tmp_path, synthetic.csv_text(table, environment))).kind == kind


def test_rows_of_a_software_device_that_is_called_hardware_are_invalid_and_are_not_shown_as_hardware(
    tmp_path: Path,
) -> None:
    document = {"environment": {"kind": "hardware"}, "rows": [synthetic.row("RC", 64, 4, "local", 1.0, device="vb_lo")]}
    source = read(write(tmp_path, json.dumps(document), "table.json"))
    assert (source.kind, source.rows[0].validity) == ("software", "invalid")
    assert source.rows[0].reason.endswith("vb_lo is a software device, but the environment says hardware")


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ("# kind: hardware\n# kind: software\n", "environment key 'kind' appears twice"),
        ("# kind: virtual\n", "kind 'virtual' in the environment is neither hardware nor software"),
    ],
)
def test_an_environment_of_two_kinds_or_of_an_unknown_one_is_refused(
    tmp_path: Path, environment: str, says: str
) -> None:
    with pytest.raises(tables.TableError, match=says):
        read(write(tmp_path, HEADER + "msg_sweep,RC,64,4,1,1.0,0.06\n" + environment))


FORGED = "msg_sweep,UD,64,4,200000,99.0,5.9\n"


@pytest.mark.parametrize("separator", ["\v", "\f", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_the_rows_that_are_shown_are_those_that_were_judged(tmp_path: Path, separator: str) -> None:
    """Python ends a line at each of these characters, and the judge at a line feed only."""
    hidden = separator + HEADER.strip() + separator + FORGED.strip() + ',"['
    text = f'# h: x{hidden}\n{HEADER}msg_sweep,RC,64,4,200000,1.0,0.06\n# c: d{separator}"\n'
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    assert [(row.mode, row.mops) for row in read(path).rows] == [("RC", 1.0)]


def test_a_line_of_a_quoted_field_is_no_comment(tmp_path: Path) -> None:
    text = HEADER.replace("gib", "gib,reason") + 'msg_sweep,RC,64,4,200000,1.0,0.06,"[\n# kind: hardware\n"\n'
    source = read(write(tmp_path, text))
    assert (source.environment, source.kind, len(source.rows)) == ({}, "unknown", 1)


def test_blanks_in_the_names_of_columns_do_not_switch_the_judge_off(tmp_path: Path) -> None:
    header = HEADER.strip() + ", op, window_mode, mops_low, mops_high\n"
    row = read(write(tmp_path, header + FORGED.strip() + ",send,local,98,100\n")).rows[0]
    assert row.validity == "invalid" and row.reason == "it has figures but no repetitions from which they could follow"


@pytest.mark.parametrize("figure", ["n/a", "fast", "nan", "1_0", "\u0663", " 1"])
def test_a_figure_that_the_judge_cannot_read_is_none_and_the_verdict_says_why(tmp_path: Path, figure: str) -> None:
    row = read(write(tmp_path, HEADER + f"msg_sweep,RC,64,4,200000,{figure},{figure}\n")).rows[0]
    assert row.mops is None
    assert (row.validity, row.reason.split(" ")[0]) == (("n/a", "") if figure == "n/a" else ("invalid", "mops"))


def test_columns_that_the_judge_does_not_know_are_not_shown(tmp_path: Path) -> None:
    source = read(write(tmp_path, HEADER.strip() + ",comment,p98_us\nmsg_sweep,RC,64,4,200000,1.0,0.06,hello,7\n"))
    assert source.rows[0].validity == "valid"
    assert source.rows[0].get("p98_us") is None and "comment" not in source.rows[0].words


def test_clashing_stems_are_labelled_by_path() -> None:
    paths = [Path("table.csv"), Path("a/table.csv"), Path("other.csv")]
    assert tables.labels(paths) == ["table.csv", "a/table.csv", "other"]


def test_no_two_tables_have_one_label_and_none_has_that_of_a_published_one() -> None:
    """A file named as the published table, or named twice, took the claims of the other one."""
    paths = [Path("rc_vs_ud"), Path("a.csv"), Path("a.csv"), Path("a"), Path("b.csv")]
    assert tables.labels(paths, {"rc_vs_ud"}) == ["rc_vs_ud (2)", "a.csv", "a.csv (2)", "a", "b"]


def test_quoted_reason_may_hold_commas_and_comments_may_stand_anywhere(tmp_path: Path) -> None:
    table = [synthetic.row("UD", 8192, 4, "local", None, reason='lost, mostly; "all"')]
    source = read(write(tmp_path, "# first: yes\n" + synthetic.csv_text(table)))
    assert (source.rows[0].validity, source.rows[0].reason) == ("n/a", 'lost, mostly; "all"')
    assert source.environment == {"first": "yes"} | synthetic.ENVIRONMENT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty: the program that should have written it was interrupted, so measure again"),
        ("a,b\n1,2\n", "no column 'experiment': not a table of an experiment"),
        (HEADER, "no rows"),
        (HEADER + "msg_sweep,RC,32,4\n", "line 2: 4 fields, but the header has 7"),
        (HEADER + "msg_sweep,XX,32,4,1,1.0,0.1\n", "row 1: mode 'XX' is not one of RC, UD, UD-seg"),
        (HEADER + "msg_sweep,RC,1e19,4,1,1.0,0.1\n", "row 1: msg 1e+19 is not 0, and not from 1e-18 to 1e+18"),
        (HEADER + "msg_sweep,RC,32,4,1,1e-300,0.1\n", "row 1: mops 1e-300 is not 0, and not from 1e-18 to 1e+18"),
        (HEADER + "msg_sweep,RC,32,4,1,0e999,0\n" * 2, "row 2: the same cell as row 1"),
        (HEADER + "msg_sweep,RC,0,4,1,1.0,0.1\n", "row 1: msg 0 is not a positive whole number"),
        (HEADER + "latency,RC,32,4,1,1.0,0.1\n", "experiment 'latency' is not one of msg_sweep, qp_sweep"),
        (HEADER + "msg_sweep,RC,32,4,1,1.0,0.1\n" * 2, "row 2: the same cell as row 1"),
        ("{", "not valid JSON: it does not end with '}', so it is truncated; measure again"),
        ('{"rows": 3}', "the JSON has no list 'rows'"),
    ],
)
def test_malformed_input_is_a_one_line_error_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(tables.TableError) as error:
        read(write(tmp_path, text))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


BARE = f"{HEADER}msg_sweep,RC,64,4,1000,4,0.238419\nmsg_sweep,UD,64,4,1000,40,2.38419\n"


def test_figures_without_repetitions_make_no_winner_and_support_no_claim(tmp_path: Path) -> None:
    """Seven columns alone got the intervals of the published table, and so a winner."""
    forged = read(write(tmp_path, BARE))
    assert forged.lacks_evidence and [row.validity for row in forged.rows] == ["valid", "valid"]
    assert not any(row.usable or row.has_interval("mops") for row in forged.rows)
    assert [each.winner for each in RCUD.compare(forged)] == ["n/a"]
    assert RCUD.compare(forged)[0].obstacle == f"RC valid, but {tables.NO_EVIDENCE}"
    assert "supported" not in {each.finding.verdict for each in RCUD.judge_claims(forged)}
    assert not RCUD.published().lacks_evidence


def test_the_page_says_that_a_table_has_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "forged.csv").write_text(BARE, encoding="utf-8")
    done = run("forged.csv", "-o", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done
    listed = (tmp_path / "page.html").read_text(encoding="utf-8").split("</header>")[0]
    assert f'<span class="device">{tables.NO_EVIDENCE}</span>' in listed
