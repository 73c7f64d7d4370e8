# SPDX-License-Identifier: Apache-2.0
"""`verbena check` and `verbena report` on published and fresh tables, and the other subcommands."""

import csv
import hashlib
import html
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from programs import PUBLISHED, ROOT, Programs, Ran

PLOTS = {f"{quantity}_vs_message_size_window_{window}" for quantity in ("mops", "throughput") for window in (4, 64)}
VERDICTS = {"supported", "contradicted", "not testable"}


@pytest.fixture(scope="module")
def table(shared_programs: Programs) -> Path:
    """A folder with our own rows.csv and rows.json, of all published sizes and windows."""
    quick = ("--quiet", "--iters", 500, "--warmup", 50, "--reps", 2)
    ran = shared_programs.run("verbena", "bench", "rcud", *quick, "--csv", "rows.csv", "--json", "rows.json")
    assert ran.status == 0, ran
    return shared_programs.folder


def judged(programs: Programs, file: Path) -> dict[tuple[str, int, int, str], tuple[str, str]]:
    ran = programs.run("verbena", "check", file, "--json")
    assert ran.status == 0, ran
    rows = json.loads(ran.out)["rows"]
    return {
        (row["mode"], row["msg"], row["window"], row["window_mode"]): (row["validity"], row["reason"]) for row in rows
    }


def test_the_published_table_has_exactly_its_three_faults(programs: Programs) -> None:
    verdicts = judged(programs, PUBLISHED)
    assert len(verdicts) == 36
    faults = {cell: validity for cell, (validity, _) in verdicts.items() if validity != "valid"}
    assert faults == {("UD", 8192, 4, ""): "invalid", ("UD", 8192, 64, ""): "invalid", ("UD", 4096, 64, ""): "suspect"}
    assert "larger than the MTU" in verdicts["UD", 8192, 64, ""][1]
    assert "plateau" in verdicts["UD", 4096, 64, ""][1]


def test_strict_exits_with_three_on_the_published_table(programs: Programs) -> None:
    for options, status in (([], 0), (["--strict"], 3)):
        ran = programs.run("verbena", "check", PUBLISHED, *options)
        assert ran.status == status and ran.out.endswith("36 rows: 2 invalid, 1 suspect\n"), ran


@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_our_own_table_has_no_invalid_row(programs: Programs, table: Path, name: str) -> None:
    ran = programs.run("verbena", "check", "--strict", table / name)
    assert ran.status == 0 and "72 rows: 0 invalid" in ran.out, ran
    with open(table / "rows.csv", newline="") as file:
        own = {row["validity"] for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    assert {validity for validity, _ in judged(programs, table / name).values()} == own, "a row reads as it was written"


@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_check_prints_the_table_as_it_has_read_it(programs: Programs, table: Path, name: str) -> None:
    ran = programs.run("verbena", "check", "--json", "--table", table / name)
    read, written = json.loads(ran.out), json.loads((table / "rows.json").read_text())
    assert (read["experiment"], read["kind"], read["environment"]) == ("rcud", "software", written["environment"])
    assert read["cell"] == ["experiment", "mode", "msg", "window", "op", "window_mode", "qps", "senders"]
    for row, own in zip(read["rows"], written["rows"], strict=True):
        values = {key: value for key, value in row["values"].items() if key not in ("repetitions", "apart")}
        assert values == {key: own[key] for key in values} and values["msg"] == own["msg"]
        left_out = {key for key in own if own[key] not in (None, "")} - set(row["values"])
        assert left_out <= {"validity", "reason"}, "the verdict is the judge's"
        assert [each["counted_ns"] for each in row["values"]["repetitions"]] == [
            each["counted_ns"] for each in own["repetitions"]
        ]


def test_check_says_what_software_is_and_what_it_does_not_believe(programs: Programs) -> None:
    head = "experiment,mode,msg,window,iters,mops,gib,device\nmsg_sweep,RC,64,4,1,1.0,0.06,VB_LO\n"
    for environment, status, text in (
        ("# nic: hardware\n", 3, '"kind": "software"'),
        ("# kind: Hardware\n", 3, "VB_LO is a software device, but the environment says hardware"),
        ("# kind: hardware\n# kind: software\n", 1, "environment key 'kind' appears twice"),
        ("# kind: \x1b[2Jhard\n", 1, r"kind '\x1b[2jhard' in the environment is neither hardware nor software"),
        ("# kind: virtual\n", 1, "kind 'virtual' in the environment is neither hardware nor software"),
    ):
        (programs.folder / "table.csv").write_text(head + environment)
        ran = programs.run("verbena", "check", "--strict", "--json", "table.csv")
        assert ran.status == status and text in ran.out + ran.err, ran


def test_check_refuses_a_table_of_more_rows_than_it_may_have(programs: Programs) -> None:
    assert programs.run("verbena", "check", PUBLISHED, "--rows-max", 36).status == 0
    ran = programs.run("verbena", "check", PUBLISHED, "--rows-max", 35)
    assert ran.status == 1 and "more than 35 rows: name a part of them" in ran.err, ran


def test_a_report_in_an_activated_virtual_environment_finds_debians_modules(programs: Programs, tmp_path: Path) -> None:
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    activated = os.environ | {
        "VERBENA_REPORT": str(ROOT / "report"),
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}",
    }
    ran = programs.run("verbena", "report", PUBLISHED, "-o", "page.html", env=activated, limit_s=60)
    assert ran.status == 0, ran


@pytest.fixture(scope="module")
def reported(shared_programs: Programs, table: Path) -> tuple[Path, Ran]:
    output = ("-o", "page.html", "--plots", "plots", "--json", "facts.json")
    ran = shared_programs.run("verbena", "report", "rows.csv", "rows.json", *output, limit_s=60)
    assert ran.status == 0, ran
    return table, ran


def test_a_report_draws_four_different_plots_in_both_formats(reported: tuple[Path, Ran]) -> None:
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        files = {file.stem: file.read_bytes() for file in (reported[0] / "plots").glob(f"*{suffix}")}
        files = {stem: text for stem, text in files.items() if not stem.startswith("latency_percentiles_")}
        assert set(files) == PLOTS
        assert all(text.startswith(magic) for text in files.values())
        assert len({hashlib.sha256(text).hexdigest() for text in files.values()}) == 4


def test_a_report_judges_every_claim_from_the_rows(reported: tuple[Path, Ran]) -> None:
    with open(ROOT / "bench" / "published" / "claims.csv", newline="") as file:
        claims = {line["id"]: line["sentence"] for line in csv.DictReader(file) if line["system"] == "rc_vs_ud"}
    facts = json.loads((reported[0] / "facts.json").read_text())
    assert len(facts["claims"]) == 3, "by both of our files, and by the published table"
    for judgements in facts["claims"].values():
        assert {each["claim"]["id"]: each["claim"]["sentence"] for each in judgements} == claims
        for each in judgements:
            assert each["finding"]["verdict"] in VERDICTS and each["finding"]["because"], each


def test_the_page_has_the_rows_the_environment_and_the_kind_of_nic(reported: tuple[Path, Ran]) -> None:
    page = (reported[0] / "page.html").read_text()
    assert "vb_lo, software NIC" in page and "hardware NIC" not in page
    assert page.count("<figure") == 5, "the four plots, and the latency percentiles"
    assert "msg 8192 &gt; UD max 4096" in page
    for key, value in json.loads((reported[0] / "rows.json").read_text())["environment"].items():
        assert key in page and html.escape(value) in page, key


def test_devices_lists_all_devices_and_the_one_that_would_be_chosen(programs: Programs) -> None:
    ran = programs.run("verbena", "devices", "--json")
    assert ran.status == 0, ran
    devices = json.loads(ran.out)
    assert devices["devices"][-1]["name"] == "vb_lo" and devices["devices"][-1]["kind"] == "software"
    (port,) = devices["devices"][-1]["ports"]
    assert (port["state"], port["mtu"], port["link"]) == ("ACTIVE", 4096, "Ethernet")
    assert port["gids"][0] | {"interface": "lo"} == port["gids"][0]
    assert (port["gids"][0]["type"], port["gids"][0]["gid"]) == ("RoCE v2", "0000:0000:0000:0000:0000:ffff:7f00:0001")
    chosen = devices["chosen_on_this_host"]
    assert chosen["device"] == "vb_lo" and chosen["why"].startswith("both ends on this host")
    text = programs.run("verbena", "devices").out
    assert re.search(r"^vb_lo  software$", text, re.MULTILINE), text
    assert re.search(r"^chosen within this host +: vb_lo port 1", text, re.MULTILINE), text


def test_doctor_has_a_level_for_each_finding_and_advice_for_each_problem(programs: Programs) -> None:
    ran = programs.run("verbena", "doctor", "--json")
    document = json.loads(ran.out)
    assert ran.status == int(document["problem"]), ran
    assert {"RDMA devices", "memfd_create", "eventfd"} <= {each["subject"] for each in document["findings"]}
    for each in document["findings"]:
        assert each["level"] in ("ok", "note", "problem") and each["seen"], each
        assert each["level"] != "problem" or each["advice"], each
    assert document["problem"] == any(each["level"] == "problem" for each in document["findings"])
    lines = programs.run("verbena", "doctor").out
    assert all(each["subject"] in lines for each in document["findings"])


def test_version_names_the_commit(programs: Programs) -> None:
    ran = programs.run("verbena", "version")
    assert ran.status == 0 and re.fullmatch(r"verbena 0\.\d+\.\d+ \([0-9a-z-]+\)\n", ran.out), ran


def test_a_files_name_reaches_the_terminal_without_its_control_characters(programs: Programs) -> None:
    ran = programs.run("verbena", "check", "bad\x1b[31m\nx.csv")
    assert ran.status == 1 and "cannot read bad\\x1b[31m\\x0ax.csv: No such file" in ran.err, ran


def test_a_negative_number_of_rows_is_no_limit(programs: Programs) -> None:
    ran = programs.run("verbena", "check", PUBLISHED, "--rows-max", "-1")
    assert ran.status == 2 and "-1 not in range" in ran.err, ran
