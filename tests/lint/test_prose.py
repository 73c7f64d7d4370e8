# SPDX-License-Identifier: Apache-2.0
"""The prose check: comments, docstrings and documents against the glossary."""

from pathlib import Path

import prose
import pytest

RULES = prose.read_rules(
    """
## Retired words

| retired | write instead |
|---|---|
| `bury`, `stand still` | retire |

## Retired openings

| retired | write instead |
|---|---|
| `What`, `Of` | name the subject |
"""
)


def objections(name: str, text: str) -> list[tuple[int, str]]:
    return [(found.number, found.text) for found in prose.check_text(Path(name), text, RULES)]


def test_a_comment_ends_at_column_100_and_a_tab_is_four_columns():
    assert not objections("a.cc", "\t// " + "x" * 93)
    assert objections("a.cc", "\t// " + "x" * 94)[0][0] == 1
    assert objections("a.cc", "int code;  // " + "x" * 87)
    assert not objections("a.cc", 'auto wide = "' + "x" * 200 + '";')


def test_an_address_may_be_wider_than_a_line():
    assert not objections("a.h", "// https://example.org/" + "x" * 100)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cc", "// We bury it."),
        ("a.h", "/* We\n * bury it. */"),
        ("a.py", "# We bury it.\n"),
        ("a.py", 'def f():\n    """We bury it."""\n'),
        ("a.sh", "true  # we bury it"),
        ("CMakeLists.txt", "# We bury it."),
        ("a.md", "We bury it."),
        ("a.md", "| cell | We bury it. |"),
    ],
)
def test_a_retired_word_is_found_in_every_kind_of_file(name, text):
    assert ["bury" in text for _, text in objections(name, text)] == [True], objections(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cc", 'puts("We bury it. // bury");'),
        ("a.cc", "auto text = R\"x(// bury)x\"; char c = '\"'; int n = 60'000;"),
        ("a.cc", "bury(link);"),
        ("a.cc", "// The function `bury` is gone, and bury_due with it."),
        ("a.py", 'text = "# bury"\n'),
        ("a.sh", 'echo "we # bury it"'),
        ("a.md", "```\nbury\n```\n"),
        ("a.json", '{"bury": 1}'),
    ],
)
def test_code_literals_and_names_are_no_prose(name, text):
    assert not objections(name, text)


def test_a_retired_opening_is_found_at_each_sentence_but_not_within_one():
    text = "// First. What follows\n// is wrong. This is what we want.\n"
    assert [number for number, _ in objections("a.cc", text)] == [1]
    assert [number for number, _ in objections("a.cc", "// First.\n// Of others.")] == [2]
    assert [number for number, _ in objections("a.cc", "int n = 0;  // of the message")] == [1]


def test_a_question_and_a_heading_may_begin_with_a_retired_opening():
    assert not objections("a.md", "What would surprise us?")
    assert not objections("a.md", "## What it is\n\nIt is this.")


def test_comments_that_are_apart_are_sentences_of_their_own():
    assert not objections("a.cc", "int a;  // the number of\nint b;  // what\n")[1:]
    assert len(objections("a.cc", "// One\n\n// What two")) == 1


def test_every_retired_term_of_the_glossary_is_refused():
    glossary = prose.GLOSSARY.read_text()
    rules = prose.read_rules(glossary)
    for pattern, _ in rules.words:
        term = pattern.pattern.split("(?:", 1)[1].split("|")[0].split(")")[0].replace("\\", "")
        found = prose.check_text(Path("a.cc"), f"// It is {term} here.", rules)
        assert found, term


def test_a_glossary_without_its_tables_is_an_error():
    with pytest.raises(ValueError, match="no table"):
        prose.read_rules("# Glossary\n")


def test_the_exit_status_counts(tmp_path, capsys):
    good, bad = tmp_path / "good.cc", tmp_path / "bad.cc"
    good.write_text("// It is good.\n")
    bad.write_text("// What is bad.\n")
    assert prose.main([str(good)]) == 0
    assert prose.main([str(good), str(bad)]) == 1
    assert "bad.cc:1:" in capsys.readouterr().out
