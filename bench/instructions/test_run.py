# SPDX-License-Identifier: Apache-2.0
"""The comparison of instructions: its rows and its exit status."""

import os
import re
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run")
ROOT = RUN.parent.parent.parent
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"
MACHINE_LIMIT_S = 100


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RUN, *words], capture_output=True, text=True, timeout=MACHINE_LIMIT_S)


@pytest.mark.parametrize(("limit", "status"), [("100000", 0), ("-99", 1)])
def test_the_limit_decides_the_exit_status(limit: str, status: int) -> None:
    done = run(str(NIC), str(NIC), "--quick", "--runs", "1", "--limit", limit)
    assert done.returncode == status, done.stdout + done.stderr
    row = re.search(r"^send +8 +32 +([\d.]+) +([\d.]+) ", done.stdout, re.MULTILINE)
    assert row, done.stdout
    assert 100 < float(row[1]) < 100_000


@pytest.mark.parametrize("name", ["no-such-commit", "/nowhere/libverbena-nic.so"])
def test_what_is_no_build_ends_with_2_and_is_named(name: str) -> None:
    done = run(name, str(NIC))
    assert done.returncode == 2
    assert name in done.stderr
    assert "Traceback" not in done.stderr


# Python's tarfile in Debian 12 cannot unpack them safely, and no commit could be measured.
def test_the_files_of_a_commit_are_unpacked_once_to_be_built(tmp_path: Path) -> None:
    cmake = tmp_path / "cmake"
    cmake.write_text("#!/bin/sh\ntest -f CMakePresets.json && echo files are here\nexit 1\n")
    cmake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for _ in range(2):
        done = subprocess.run(
            [RUN, "HEAD", str(NIC)],
            capture_output=True,
            text=True,
            timeout=MACHINE_LIMIT_S,
            env={**os.environ, "PATH": path},
        )
        assert done.returncode == 2
        assert "does not build: files are here" in done.stderr
