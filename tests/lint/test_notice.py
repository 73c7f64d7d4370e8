# SPDX-License-Identifier: Apache-2.0
"""NOTICE names the software of others that gets into binaries, the wheel and the page."""

import re
from pathlib import Path

import pytest
from objections import ROOT, tracked_files

NOTICE = (ROOT / "NOTICE").read_text()
CHART_JS = Path("/usr/share/javascript/chart.js/chart.min.js")
SYSTEM = {"arpa", "linux", "net", "netinet", "netpacket", "sys"}  # the kernel's and libc's
# Headers whose inline functions get into binaries, and the Debian package that NOTICE names.
COPIED = {
    "CLI": "libcli11-dev",
    "fmt": "libfmt-dev",
    "msgpack.hpp": "libmsgpack-cxx-dev",
    "nlohmann": "nlohmann-json3-dev",
    "prometheus": "prometheus-cpp-dev",
    "xxhash.h": "libxxhash-dev",
}
# Headers of shared libraries in C: nothing that deserves a notice is copied from them.
SHARED = {"curl", "elfutils", "infiniband", "liburing.h", "lmdb.h", "openssl", "rdma"}
# Headers of tests, and of the benchmarks' rivals, which are not installed.
NOT_INSTALLED = {"capnp", "gmock", "grpcpp", "gtest", "kj", "sanitizer"}


def included_folders() -> set[str]:
    """Return the first parts of the names of included headers, without libc's own in <name.h>."""
    found = set()
    for path in tracked_files("base", "nic", "lib", "bench", "tools"):
        if path.suffix in {".cc", ".h"} and path.is_file():
            text = path.read_text()
            found |= set(re.findall(r"^#include <([A-Za-z0-9_]+)/", text, re.MULTILINE))
            found |= set(re.findall(r"^#include <((?:msgpack|xxhash|liburing|lmdb)\.hp*)>", text, re.MULTILINE))
    return found - {"verbena"}


def test_every_header_of_others_is_accounted_for() -> None:
    known = SYSTEM | set(COPIED) | SHARED | NOT_INSTALLED
    assert included_folders() - known == set(), "name it in NOTICE if its code gets into binaries, and then here"
    assert set(COPIED) - included_folders() == set(), "no longer used: remove it from NOTICE"


@pytest.mark.parametrize("package", [*COPIED.values(), "libjs-chart.js"])
def test_each_package_whose_code_is_copied_has_its_entry(package: str) -> None:
    assert re.search(rf"^\S.*\(.*{re.escape(package)}\)$", NOTICE, re.MULTILINE)


def test_the_parts_of_chart_js_have_their_versions() -> None:
    parts = re.findall(r"^ \* (\S+) v([0-9.]+)$", CHART_JS.read_text(), re.MULTILINE)
    assert len(parts) == 2
    assert not [part for part, version in parts if f"{part} {version} (" not in NOTICE]


def test_each_licence_that_an_entry_refers_to_has_its_text() -> None:
    named = set(re.findall(r"(MIT|BSD \d-clause) licence, below", NOTICE))
    assert named == set(re.findall(r"^The (MIT|BSD \d-clause) licence$", NOTICE, re.MULTILINE))


def test_the_packages_install_it() -> None:
    assert "NOTICE" in (ROOT / "deploy" / "packages" / "CMakeLists.txt").read_text()
