# SPDX-License-Identifier: Apache-2.0
"""docs/environment.md names every environment variable that the code reads, and no other."""

import re
from collections.abc import Iterator

from objections import ROOT, tracked_files

PAGE = ROOT / "docs" / "environment.md"
NAME = r"[A-Z][A-Z0-9_]+"
# getenv("X"), os.environ["X"], os.environ.get("X"), and value("X") of functions that wrap getenv.
READ = re.compile(rf'(?:getenv|environ\.get|environ\[|\bvalue)[(\[]?\s*"({NAME})"')
SOURCES = {".cc", ".h", ".py"}


def read_by_the_code() -> Iterator[str]:
    for path in tracked_files("base", "nic", "lib", "bench", "tools", "report", "python", "tests"):
        if path.suffix in SOURCES and path.is_file():
            yield from READ.findall(path.read_text(errors="replace"))


def test_every_variable_that_the_code_reads_is_on_the_page():
    page = set(re.findall(rf"`({NAME})`", PAGE.read_text()))
    assert "VERBENA_LOG" in set(read_by_the_code())
    assert set(read_by_the_code()) - page == set()


def test_every_variable_of_ours_on_the_page_is_in_the_code():
    code = "".join(
        path.read_text(errors="replace")
        for path in tracked_files("base", "nic", "lib", "bench", "tools", "tests")
        if path.suffix in SOURCES and path.is_file()
    )
    page = set(re.findall(r"`(VERBENA_[A-Z_]+)`", PAGE.read_text()))
    assert {name for name in page if f'"{name}"' not in code} == set()
