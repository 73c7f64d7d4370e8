# SPDX-License-Identifier: Apache-2.0
"""tests/lint/tidy.py looks at a file again only if something that clang-tidy sees has changed."""

import json
import subprocess
from pathlib import Path

import pytest

TIDY = Path(__file__).with_name("tidy.py")
# Its findings are the lines with "wrong"; it notes each file that it looks at.
STAND_IN = """#!/bin/bash
[ "$1" = --version ] && { echo "stand-in 1"; exit; }
echo "${@: -1}" >>"$(dirname "$0")/looked"
! grep -H wrong "${@: -1}"
"""


class House:
    """A build folder with one file and its header, and a stand-in for clang-tidy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.header = folder / "a.cc", folder / "a.h"
        self.source.write_text('#include "a.h"\nint a = b;\n')
        self.header.write_text("constexpr int b = 1;\n")
        command = f"g++ -o a.o -c {self.source}"
        entry = {"file": str(self.source), "directory": str(folder), "command": command}
        (folder / "compile_commands.json").write_text(json.dumps([entry]))
        self.program = folder / "stand-in"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)

    def run(self, file: Path | str = "a.cc") -> subprocess.CompletedProcess[str]:
        words = [str(TIDY), str(self.folder), "--program", str(self.program)]
        return subprocess.run(
            words, cwd=self.folder, input=f"{file}\n", capture_output=True, text=True, timeout=60, check=False
        )

    def looks(self) -> int:
        looked = self.folder / "looked"
        return len(looked.read_text().splitlines()) if looked.exists() else 0


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_clean_file_is_looked_at_once(house: House) -> None:
    assert house.run().returncode == 0 and house.looks() == 1
    again = house.run()
    assert again.returncode == 0 and house.looks() == 1
    assert "1 files, 1 of them clean before" in again.stderr


def test_a_changed_header_or_comment_is_seen(house: House) -> None:
    house.run()
    house.header.write_text("constexpr int b = 2;\n")
    house.run()
    assert house.looks() == 2
    house.source.write_text(house.source.read_text() + "// NOLINT\n")
    house.run()
    assert house.looks() == 3


def test_a_macro_with_a_comment_that_is_pasted_keeps_no_file_from_being_remembered(house: House) -> None:
    """As in nlohmann/json.hpp: gcc -E -CC refuses it, so 105 files were looked at in every run."""
    house.header.write_text("#define ONE 1 /* one */\n#define PASTE(x) x##u\n#define UNSIGNED(x) PASTE(x)\n")
    house.source.write_text('#include "a.h"\nunsigned a = UNSIGNED(ONE);\n')
    for _ in range(2):
        assert house.run().returncode == 0
    assert house.looks() == 1


def test_findings_are_printed_each_time(house: House) -> None:
    house.source.write_text(house.source.read_text() + "// wrong\n")
    for looks in (1, 2):
        ran = house.run()
        assert ran.returncode == 1 and "// wrong" in ran.stdout and house.looks() == looks


def test_a_file_that_cannot_be_preprocessed_is_left_to_clang_tidy(house: House) -> None:
    house.header.unlink()
    for looks in (1, 2):
        house.run()
        assert house.looks() == looks


def test_a_file_is_named_by_any_path_and_an_unknown_one_is_refused(house: House) -> None:
    assert house.run("./a.cc").returncode == 0
    assert "1 of them clean before" in house.run(house.source).stderr
    refused = house.run("b.cc")
    assert refused.returncode == 2 and f"does not compile {house.folder / 'b.cc'}" in refused.stderr
