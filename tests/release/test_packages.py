# SPDX-License-Identifier: Apache-2.0
"""The RPM spec has the same parts and descriptions as the Debian packages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "deploy" / "packages"
SPEC = (ROOT / "deploy" / "rpm" / "verbena.spec").read_text()
# The name of a Debian package, and the part of the spec: the words after %description and %files.
PARTS = {
    "verbena": "",
    "libverbena-nic": " nic",
    "verbena-servers": " servers",
    "libverbena-kv0": " kv-libs",
    "libverbena-dev": " devel",
    "python3-verbena": " -n python3-verbena",
}


def section(kind: str, part: str) -> str:
    return re.search(rf"^%{kind}{re.escape(part)}\n(.*?)\n\n", SPEC, re.MULTILINE | re.DOTALL)[1]


def test_each_debian_package_is_a_part_of_the_spec() -> None:
    assert {path.name for path in (DEBIAN / "description").iterdir()} == set(PARTS)
    assert sorted(re.findall(r"^%files(.*)$", SPEC, re.MULTILINE)) == sorted(PARTS.values())


@pytest.mark.parametrize("package", PARTS)
def test_a_part_has_the_first_paragraph_of_the_description(package: str) -> None:
    first = (DEBIAN / "description" / package).read_text().split("\n.\n")[0]
    assert section("description", PARTS[package]).startswith(first.strip())


@pytest.mark.parametrize("package", PARTS)
def test_a_part_has_the_title(package: str) -> None:
    titles = dict(
        re.findall(r'^\t"[a-z]+\|([^|]+)\|[^|]+\|(.*)"', (DEBIAN / "CMakeLists.txt").read_text(), re.MULTILINE)
    )
    summaries = re.findall(r"^Summary: +(.*)$", SPEC, re.MULTILINE)
    assert titles[package].lower() in [summary.lower() for summary in summaries]


@pytest.mark.parametrize("part", PARTS.values())
def test_a_part_has_the_licence_and_the_notices(part: str) -> None:
    assert "%license LICENSE NOTICE" in section("files", part)
