# SPDX-License-Identifier: Apache-2.0
"""Runs programs on the NIC with a folder of their own for what the NIC writes to disk."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60

Ran = subprocess.CompletedProcess[str]
Run = Callable[..., Ran]


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """The user's runtime folder ($XDG_RUNTIME_DIR)."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def run(runtime: Path) -> Run:
    """Run a program with the NIC preloaded. `before`: words in front of it that run without."""

    # Tests name vb_lo, which exists on each machine.
    environment = {"LD_PRELOAD": NIC, "XDG_RUNTIME_DIR": runtime, "VERBENA_DEVICES": "+vb_lo", "LC_ALL": "C"}

    def run_one(*command: str | Path, before: tuple[str, ...] = ()) -> Ran:
        return subprocess.run(
            [*before, "env", *(f"{name}={value}" for name, value in environment.items()), *command],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run_one


def compile_c(name: str, folder: Path, *flags: str) -> Path:
    program = folder / name
    source = Path(__file__).with_name(f"{name}.c")
    warnings = ["-std=gnu17", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warnings, "-O2", *flags, source, "-o", program, "-libverbs"], check=True)
    return program
