# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: each message that it explains exists in the sources."""

import re

from objections import ROOT, tracked_files

PAGE = ROOT / "docs" / "troubleshooting.md"
HEADING = re.compile(r"^### `(.+)`$", re.MULTILINE)
# A word in capitals stands for something that the program puts in; so does a format's {} or %s.
PLACE = re.compile(r"\b(?:HOST|PROGRAM|FOLDER|REASON|NAME|N)\b")
LITERALS = re.compile(r'"\s*"')
# The C library's words for ENOSPC and EMFILE.
KERNEL = {"No space left on device", "Too many open files"}


def sources() -> str:
    """Return all C++ sources, with adjacent string literals joined and without placeholders."""
    text = "".join(
        path.read_text(errors="replace")
        for path in tracked_files("base", "nic", "lib", "bench", "tools")
        if path.suffix in {".cc", ".h"} and "_test" not in path.name and path.is_file()
    )
    return LITERALS.sub("", text)


def test_each_message_on_the_page_is_one_of_a_program():
    code = sources()
    headings = HEADING.findall(PAGE.read_text())
    assert len(headings) > 20
    missing = [
        part.strip(" ,:;")
        for heading in headings
        if heading not in KERNEL
        for part in PLACE.split(heading)
        if part.strip(" ,:;") and part.strip(" ,:;") not in code
    ]
    assert missing == []


def test_each_message_has_a_cause_and_a_way_out():
    for entry in PAGE.read_text().split("\n### ")[1:]:
        heading, _, text = entry.partition("\n")
        assert len(text.split("\n## ")[0].split()) > 5, heading
