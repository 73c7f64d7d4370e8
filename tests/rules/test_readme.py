# SPDX-License-Identifier: Apache-2.0
"""docs/rules/README.md lists the rules of nic/rules, and those that are not built, with reasons."""

import re

from checked import ROOT

FOLDER = ROOT / "docs" / "rules"
BUILT, NOT_BUILT = (FOLDER / "README.md").read_text().split("\n## Not built\n")
SOURCE = (ROOT / "nic/rules/rule.cc").read_text()
SEVERITIES = dict(re.findall(r'\{"([a-z0-9-]+)", (error|portability|advice),', SOURCE))


def rows(text: str, columns: int) -> list[list[str]]:
    """Return the cells of the tables with this number of columns, without their heads."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    return [cells for cells in found if len(cells) == columns and cells[0] != "rule"]


def test_the_page_has_the_rules_of_the_checker_with_their_severities() -> None:
    listed = {re.sub(r"\[([a-z0-9-]+)\]\(\1\.md\)", r"\1", name): severity for name, severity, _ in rows(BUILT, 3)}
    assert listed == SEVERITIES
    assert len(rows(BUILT, 3)) == len(listed)


def test_each_page_is_about_a_rule_of_the_checker() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} - {"README"} == set(SEVERITIES)


def test_a_rule_that_is_not_built_is_listed_once_and_has_no_page() -> None:
    names = [name for name, *_ in rows(NOT_BUILT, 4)]
    assert len(set(names)) == len(names)
    # A rule that is built leaves the table, and none is dropped.
    assert len(names) + len(SEVERITIES) >= 102
    assert not set(names) & set(SEVERITIES)


def test_an_error_or_portability_rule_that_is_not_built_has_a_reason() -> None:
    for name, severity, mistake, needs in rows(NOT_BUILT, 4):
        assert severity in ("error", "portability", "advice") and mistake, name
        assert severity == "advice" or re.search(r": \w+ \w+", needs), f"{name}: say why, after a colon"
