# SPDX-License-Identifier: Apache-2.0
"""The files that the program writes, and errors that must not look like a regression (status 1)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from report import judge
from report.tables import TableError
from report.tests import synthetic
from report.tests.running import REPORT, TIME_LIMIT_S, read, run

RCUD = "experiment,mode,msg,window,iters,mops,gib\n"
RPC = "request_size,concurrency,gigabits_per_second,p90_us,p99_us,qps\n"
KV = "op,protocol,value_bytes,gigabytes_per_second,varied,stalled,repetitions\n"


def write(folder: Path, name: str = "table.json", **changes: object) -> str:
    """Write a table of one row and return its text."""
    text = synthetic.json_text([synthetic.row("RC", 64, 4, "local", 1.0, **changes)])
    (folder / name).write_text(text, encoding="utf-8")
    return text


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "table.json"),
        ("-o", "page.html", "--json", "table.json"),
        ("-o", "link"),
        ("-o", "page.html", "--json", "sub/../table.json"),
        ("-o", "old.json", "--baseline", "old.json"),
    ],
)
def test_a_table_that_is_read_is_not_overwritten(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = write(tmp_path)
    old = write(tmp_path, "old.json")
    (tmp_path / "link").symlink_to("table.json")
    (tmp_path / "sub").mkdir()
    done = run("table.json", *options, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert "a table that is read would be overwritten: name another file to write" in done.stderr
    assert (tmp_path / "table.json").read_text() == text and (tmp_path / "old.json").read_text() == old
    assert not (tmp_path / "page.html").exists()


def test_the_page_and_the_json_are_two_files(tmp_path: Path) -> None:
    write(tmp_path)
    done = run("table.json", "-o", "all", "--json", "./all", cwd=tmp_path)
    assert done.returncode == 2 and "all: the page and the JSON would be one file: name two" in done.stderr


def test_a_page_replaces_an_older_one_and_keeps_its_rights_and_links(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "real.html").chmod(0o640)
    (tmp_path / "page.html").symlink_to("real.html")
    done = run("table.json", "-o", "page.html", "--plots", "plots", cwd=tmp_path)
    assert done.returncode == 0, done
    assert (tmp_path / "page.html").is_symlink() and (tmp_path / "real.html").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "real.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"table.json", "real.html", "page.html", "plots"}


@pytest.mark.parametrize(
    "options", [("-o", "/dev/full"), ("-o", "page.html", "--json", "/dev/full")], ids=["page", "JSON"]
)
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, options: tuple[str, ...]) -> None:
    write(tmp_path)
    done = run("table.json", "--plots", "plots", *options, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.endswith(": /dev/full: No space left on device\n"), done


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-o", "pipefail", "-c", line.replace("REPORT", f"'{sys.executable}' '{REPORT}'")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)


def test_a_full_standard_output_is_an_error(tmp_path: Path) -> None:
    write(tmp_path)
    done = shell(tmp_path, "REPORT table.json -o page.html --plots plots --json - > /dev/full")
    assert done.returncode == 2 and done.stderr.endswith(": standard output: No space left on device\n"), done


def test_a_help_text_for_a_full_disk_is_no_regression(tmp_path: Path) -> None:
    done = shell(tmp_path, "REPORT --help > /dev/full")
    assert done.returncode == 2 and done.stderr.endswith(": standard output: No space left on device\n"), done


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-"], ids=["full", "closed"])
def test_a_page_is_written_although_nothing_can_be_said_about_it(tmp_path: Path, stream: str) -> None:
    """The status was 1, which is that of a regression, also without a baseline."""
    write(tmp_path)
    done = shell(tmp_path, f"REPORT table.json -o page.html --plots plots {stream}")
    assert done.returncode == 0 and done.stdout == "", done
    assert (tmp_path / "page.html").exists()
    assert shell(tmp_path, f"REPORT missing.json -o page.html {stream}").returncode == 2


def test_a_reader_that_ends_early_causes_no_message(tmp_path: Path) -> None:
    write(tmp_path)
    for options in ("--help", "table.json -o page.html --plots plots --json -"):
        done = shell(tmp_path, f"REPORT {options} | true")
        assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr, done


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(f"{RCUD}msg_sweep,RC,64,4,1,0e999,0\nmsg_sweep,UD,64,4,1,1,0.06\n", 0, id="zero with an exponent"),
        pytest.param(f"{RCUD}msg_sweep,RC,1e308,4,1,1,1\n", 2, id="message"),
        pytest.param(f"{RCUD}msg_sweep,RC,64,1e308,1,1,1\n", 2, id="window"),
        pytest.param(f"{RCUD}msg_sweep,RC,64,4,1,1e308,1\n", 2, id="rate"),
        pytest.param(f"{RCUD}msg_sweep,RC,64,4,1,0e300,1\n", 2, id="last digit"),
        pytest.param(f"{RPC}{'9' * 400}K,16,1,100,200,1\n", 2, id="request"),
        pytest.param(f"{RPC}9999999999999M,16,1,100,200,1\n", 2, id="request of megabytes"),
        pytest.param(
            f'{KV}GET,eager,64,1,stalled,0,"[{{""p99_us"":1}}]"\n'
            f'GET,eager,64,1,stalled,2,"[{{""p99_us"":1{"0" * 400}}}]"\n',
            0,
            id="repetition of 400 digits",
        ),
        pytest.param(
            f'{KV}GET,eager,64,1,stalled,0,"[{{""p99_us"":1e-308}}]"\nGET,eager,64,1,stalled,2,"[{{""p99_us"":1e308}}]"\n',
            0,
            id="repetitions of extremes",
        ),
    ],
)
def test_extreme_numbers_cause_no_traceback(tmp_path: Path, text: str, status: int) -> None:
    (tmp_path / "table.csv").write_text(text)
    done = run("table.csv", "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=tmp_path)
    assert done.returncode == status and done.stderr.count("\n") == 1, done
    assert "a fault of this program" not in done.stderr


def test_a_dollar_in_names_is_no_formula(tmp_path: Path) -> None:
    for name in ("$\\frac$.json", "a$b$c^.json"):
        write(tmp_path, name, device="$\\frac$")
    done = run(*sorted(path.name for path in tmp_path.iterdir()), "-o", "page.html", "--plots", "plots", cwd=tmp_path)
    assert done.returncode == 0, done


def judge_that(folder: Path, does: str) -> str:
    program = folder / "judge"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    return str(program)


def test_a_fault_of_this_program_is_one_sentence_and_no_regression(tmp_path: Path) -> None:
    write(tmp_path)
    environment = os.environ | {"VERBENA_PROGRAM": judge_that(tmp_path, "echo '{}'")}
    command = [sys.executable, str(REPORT), "table.json", "-o", "page.html"]
    for more, lines in (([], 1), (["--traceback"], 5)):
        done = subprocess.run([*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.count("\n") >= lines and (lines > 1) == bool(more), done
        assert "a fault of this program, so report it with the files: KeyError" in done.stderr.splitlines()[-1]
        assert ("Traceback" in done.stderr) == bool(more)


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("kill -SEGV $$", r"table\.json: .*judge, which judges the rows, was ended by SIGSEGV: if nobody killed it, "),
        ("exit 7", r"table\.json: verbena check ended with status 7 and said nothing"),
        ("exec sleep 60", r"table\.json: .*judge, which judges the rows, did not end within 0\.2 s: name a part of"),
    ],
)
def test_a_judge_that_fails_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, says: str
) -> None:
    write(tmp_path)
    monkeypatch.setenv("VERBENA_PROGRAM", judge_that(tmp_path, does))
    monkeypatch.setattr(judge, "TIME_MAX_S", 0.2)
    with pytest.raises(TableError, match=says):
        read(tmp_path / "table.json")


def test_the_user_sees_that_a_large_table_is_being_judged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    text = (tmp_path / "table.json").read_text()
    (tmp_path / "table.json").write_text(text + " " * judge.LARGE_BYTES)
    assert len(read(tmp_path / "table.json").rows) == 1
    assert capfd.readouterr().err == f"{tmp_path / 'table.json'}: 4 MiB are being judged\n"
