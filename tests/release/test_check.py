# SPDX-License-Identifier: Apache-2.0
"""The checklist of docs/releasing.md, and the program that runs it."""

import re
import subprocess
from pathlib import Path

import check
import pytest

PROGRAM = Path(check.__file__)


def run(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "--page", str(page), "--folder", str(page.parent / "logs"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```sh\ntrue  # one\necho said; false  # two\n[ -e VERSION ]  # three\n```\n")
    return page


def test_all_lines_are_run_and_one_that_fails_is_shown_with_its_output(page: Path) -> None:
    done = run(page)
    assert done.returncode == 1
    assert re.findall(r"(passed|FAILED) .* (one|two|three)$", done.stdout, re.MULTILINE) == [
        ("passed", "one"),
        ("FAILED", "two"),
        ("passed", "three"),
    ]
    assert "      said\n" in done.stdout and "1 of 3 failed" in done.stderr


def test_lines_that_pass_are_a_pass(page: Path) -> None:
    assert run(page, "--only", "1,3").returncode == 0


def test_a_line_that_does_not_exist_is_a_usage_error(page: Path) -> None:
    done = run(page, "--only", "7")
    assert done.returncode == 2 and "no line 7; the page has 3" in done.stderr


def test_every_line_is_a_command_that_exists_and_says_what_it_proves() -> None:
    checks = check.read(check.PAGE)
    assert len(checks) > 10 and all(each.fact for each in checks)
    makefile = (check.ROOT / "Makefile").read_text()
    for each in checks:
        words = each.command.split()
        if words[0] == "make":
            assert re.search(rf"^{words[1]}: ", makefile, re.MULTILINE), each
        elif "/" in words[0]:
            assert (check.ROOT / words[0]).exists(), each
        if words[0] == "cd":
            assert all((check.ROOT / words[1] / word).exists() for word in words if word.endswith(".py")), each
        done = subprocess.run(["bash", "-n", "-c", each.command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
