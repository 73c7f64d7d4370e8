# SPDX-License-Identifier: Apache-2.0
"""docs/limits.md gives the bounds of the NIC that its source has."""

import re

import pytest
from objections import ROOT

PAGE = ROOT / "docs" / "limits.md"
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
Row = tuple[str, str, str, str]  # the limited thing, its bound, file and constant


def rows_of_the_nic() -> list[Row]:
    section = PAGE.read_text().split("## The NIC\n", 1)[1].split("\n## ", 1)[0]
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in section.splitlines() if line.startswith("|")]
    found = []
    for what, bound, constant in cells:
        if named := re.fullmatch(r"`(\S+) (\w+)`", constant):
            found.append((what, bound, named[1], named[2]))
    return found


def value_of(file: str, constant: str) -> int:
    """Return the value of a constant: integers with *, << and ' between them, or a duration."""
    source = (ROOT / file).read_text()
    if duration := re.search(rf"\bmilliseconds {constant}{{(\d+)}};", source):
        return int(duration[1]) * UNITS["ms"]
    found = re.search(rf"\b{constant} = ([^;,]+)[;,]", source)
    assert found, f"{file} has no constant {constant}"
    expression = found[1].replace("'", "")
    assert re.fullmatch(r"[0-9 *<]+", expression), f"{file}: {constant} is {expression}"
    value = 1
    for factor in expression.split("*"):
        number, _, shift = factor.partition("<<")
        value *= int(number) << int(shift or 0)
    return value


def test_the_page_has_rows_of_the_nic() -> None:
    assert len(rows_of_the_nic()) > 20


@pytest.mark.parametrize("row", rows_of_the_nic(), ids=lambda row: row[3])
def test_a_bound_is_that_of_the_source(row: Row) -> None:
    _, bound, file, constant = row
    number, _, unit = bound.partition(" ")
    assert int(number) * UNITS[unit] == value_of(file, constant)
