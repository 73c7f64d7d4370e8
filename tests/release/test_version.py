# SPDX-License-Identifier: Apache-2.0
"""The file VERSION has the version; the build, the programs and every text have the same one."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
VERSION = (ROOT / "VERSION").read_text().strip()
TEXTS = [
    ("CHANGELOG.md", r"\A.*?^## \[(.*?)\]"),
    ("README.md", r"^Version (\S+), "),
    ("deploy/packages/changelog", r"\Averbena \((.*)-1\)"),
    ("deploy/rpm/verbena.spec", r"^Version: +(\S+)$"),
    ("deploy/rpm/verbena.spec", r"^%changelog\n[^\n]* - (\S+)-1$"),
]


def test_it_is_a_semantic_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


@pytest.mark.parametrize(("file", "pattern"), TEXTS)
def test_a_text_has_the_version(file: str, pattern: str) -> None:
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE | re.DOTALL)
    assert found and found[1] == VERSION, f"{file} has {found and found[1]}, VERSION has {VERSION}"


def test_the_program_has_the_version() -> None:
    done = subprocess.run([BUILD / "verbena", "version"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split()[:2] == ["verbena", VERSION]


@pytest.mark.parametrize(
    ("file", "pattern"),
    [("verbena-config-version.cmake", r'PACKAGE_VERSION "(.*?)"'), ("verbena-kv.pc", r"^Version: (.*)$")],
)
def test_a_description_of_the_build_has_the_version(file: str, pattern: str) -> None:
    assert re.search(pattern, (BUILD / file).read_text(), re.MULTILINE)[1] == VERSION


def test_no_source_file_repeats_the_version() -> None:
    """Firmware versions, the wheel's metadata and the packages' names come from VERSION."""
    files = [ROOT / "CMakeLists.txt"]
    for folder in ("nic", "lib", "tools", "python", "cmake", "bench"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".cc", ".h", ".py", ".toml", ".txt"}]
    repeated = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])")
    assert [str(path) for path in files if "_test." not in path.name and repeated.search(path.read_text())] == []
