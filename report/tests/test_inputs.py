# SPDX-License-Identifier: Apache-2.0
"""Empty, truncated, foreign and very large inputs: one sentence, exit status 2, bounded memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from report.__main__ import part_of
from report.experiments import read_source
from report.page import CHARTS_MAX, render
from report.reading import ROWS_MAX
from report.tests import synthetic
from report.tests.running import REPORT, run

WHOLE = synthetic.json_text([synthetic.row("RC", 64, 4, "local", 1.0)])
CSV = synthetic.csv_text([synthetic.row("RC", 64, 4, "local", 1.0)])
MEMORY_MAX = 1 << 30


def refused(folder: Path, name: str, *before: str) -> str:
    """Return the one sentence with which a file is refused, after others that are good."""
    done = run(*before, name, "-o", "page.html", cwd=folder)
    lines = [line for line in done.stderr.splitlines() if not line.endswith("MiB are being judged")]
    assert done.returncode == 2 and len(lines) == 1, done
    assert name in lines[0] and not (folder / "page.html").exists()
    return lines[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(b"", "empty: ", id="empty"),
        pytest.param(b"\n \n", "empty: ", id="blank"),
        pytest.param(WHOLE[: len(WHOLE) // 2].encode(), "it is truncated; measure again", id="half of JSON"),
        pytest.param(CSV[: len(CSV) // 2].encode(), "line 2", id="half of CSV"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0", "not UTF-8 text: name a CSV or JSON file", id="picture"),
        pytest.param(b"a\0b,c\n1,2\n", "a byte 0", id="byte 0"),
        pytest.param(b"<html><body>hello</body></html>\n", "no rows", id="HTML"),
        pytest.param(b"name,colour\nrose,red\n", "not a table of an experiment", id="foreign CSV"),
        pytest.param(b'{"rows": [{"name": "rose"}]}', "not a table of an experiment", id="foreign JSON"),
        pytest.param(b'{"rows": [1]}', "row 1 is not an object", id="rows of numbers"),
        pytest.param(b'{"rows": ' + b"[" * 200_000, "more than 64 lists within each other", id="nested"),
        pytest.param(b'{"rows": [{"mops": ' + b"9" * 5000 + b"}]}", "not valid JSON", id="long number"),
        pytest.param(b'"' + b"x" * 100, "line 1: a quoted field does not end", id="open quote"),
        pytest.param(b'{"environment": [1], "rows": [{}]}', "'environment' is not an object", id="list as environment"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(tmp_path: Path, text: bytes, says: str) -> None:
    (tmp_path / "bad").write_bytes(text)
    assert says in refused(tmp_path, "bad")


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    """The sentence was "verbena report: None: No space left on device"."""
    (tmp_path / "good.csv").write_text(CSV)
    done = run("good.csv", "-o", "/dev/full", "--plots", "plots", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == "verbena report: /dev/full: No space left on device\n", done
    done = run("good.csv", "-o", "page.html", "--json", "/dev/full", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == "verbena report: /dev/full: No space left on device\n", done


def test_a_reader_that_ends_first_gets_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, REPORT, "--help"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b"" and done.returncode == -signal.SIGPIPE, done


def test_a_folder_a_missing_file_and_an_unwritable_page_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refused(tmp_path, "folder")
    assert "No such file" in refused(tmp_path, "missing.json")
    (tmp_path / "good.json").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "taken").write_text("", encoding="utf-8")
    done = run("good.json", "-o", "taken/page.html", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "taken" in done.stderr, done


def test_a_cell_that_must_be_a_number_names_its_row(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,1e999,4,1,1,1\n")
    assert "bad.csv: row 1: no msg" in refused(tmp_path, "bad.csv")


def test_more_rows_than_the_limit_are_refused(tmp_path: Path) -> None:
    head, line = "experiment,mode,msg,window,iters,mops,gib\n", "msg_sweep,RC,{},4,1,1,1\n"
    text = head + "".join(line.format(msg) for msg in range(1, ROWS_MAX + 2))
    (tmp_path / "long.csv").write_text(text, encoding="utf-8")
    assert f"more than {ROWS_MAX} rows" in refused(tmp_path, "long.csv")


def test_files_that_are_too_large_together_are_refused(tmp_path: Path) -> None:
    names = [f"{number}.csv" for number in range(3)]
    for name in names:
        (tmp_path / name).write_text(f"{CSV}# {'x' * (30 << 20)}\n", encoding="utf-8")
    assert "2.csv: the files have more than 64 MiB together: name fewer" in refused(tmp_path, "2.csv", *names[:2])


@pytest.mark.parametrize("name", ["huge.json", "/dev/zero"])
def test_a_file_of_a_gigabyte_is_refused_without_reading_it(tmp_path: Path, name: str) -> None:
    if name == "huge.json":
        with (tmp_path / name).open("wb") as file:
            file.write(b'{"rows": [')
            file.truncate(1 << 30)  # the rest is a hole, which takes no disk

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    done = subprocess.run(
        [sys.executable, str(REPORT), name, "-o", "page.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=bound,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert f"{name}: more than 32 MiB: a result table is far smaller" in done.stderr


def test_a_pipe_is_read_once_and_makes_a_page(tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as file:
        file.write(WHOLE)
    command = [sys.executable, str(REPORT), f"/dev/fd/{read}", "-o", "page.html", "--plots", "plots"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, pass_fds=[read]
    )
    os.close(read)
    assert done.returncode == 0 and (tmp_path / "page.html").exists(), done


def test_text_that_utf_8_cannot_express_is_refused(tmp_path: Path) -> None:
    document = json.loads(WHOLE)
    document["environment"]["cpu"] = "\ud800 lone"
    (tmp_path / "odd.json").write_text(json.dumps(document), encoding="utf-8")
    assert "not valid JSON" in refused(tmp_path, "odd.json")


def test_files_of_all_experiments_make_one_page(tmp_path: Path) -> None:
    published = Path(__file__).resolve().parent.parent.parent / "bench" / "published"
    files = [published / f"{name}.csv" for name in ("rc_vs_ud", "connection_scale", "kv_set_get", "rpc_rdma")]
    done = run(*files, "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=tmp_path)
    assert done.returncode == 0, done
    document = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))
    assert [source["experiment"] for source in document["sources"]] == ["rcud", "scale", "rpc", "kv"]
    assert set(document["claims"]) == {path.stem for path in files}


def test_a_table_of_many_cells_makes_a_page_that_says_that_it_left_plots_out(tmp_path: Path) -> None:
    head, line = "experiment,mode,msg,window,iters,mops,gib\n", "msg_sweep,RC,64,{},200000,1.0,0.06\n"
    text = head + "".join(line.format(window) for window in range(1, ROWS_MAX + 1))
    (tmp_path / "wide.csv").write_text(text, encoding="utf-8")
    experiment, source = read_source(tmp_path / "wide.csv", "wide")
    part = part_of(experiment, [source])
    assert len(part.charts) == CHARTS_MAX
    page = render([part], None)
    assert f"Further plots are left out: a page has at most {CHARTS_MAX}" in page
    assert page.count(">RC SEND 64 B, window ") >= ROWS_MAX, "every row is in the table"
