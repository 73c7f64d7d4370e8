# SPDX-License-Identifier: Apache-2.0
"""docs/profiles.md has the table, the devices and the sources that the program prints."""

from pathlib import Path

from profiled import ROOT, printed, table

PAGE = (Path(ROOT) / "docs" / "profiles.md").read_text()


def tables() -> list[list[list[str]]]:
    """The tables of the page: the cells of their lines, without the line below the heading."""
    found: list[list[list[str]]] = []
    before = ""
    for line in PAGE.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        before = line
    return [[head, *rows] for head, _, *rows in found]


def test_the_table_is_the_one_that_the_program_prints() -> None:
    head, *rows = next(found for found in tables() if "e810" in found[0])
    page = {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rows}
    assert page == table()


def test_the_devices_and_sources_are_those_that_the_program_prints() -> None:
    _, *rows = next(found for found in tables() if found[0] == ["profile", "device", "sources"])
    lines = printed("--profile=list").stdout.strip().split("\n\n")[-1].splitlines()
    assert [f"{name:<8}{device}: {sources}" for name, device, sources in rows] == lines
