# SPDX-License-Identifier: Apache-2.0
"""A registration that fails says why: which page, which right, or which limit of the process."""

import ctypes
import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from traced import NIC, VERBENA

PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("registers") / "registers"
    source = Path(__file__).with_name("registers.c")
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", source, "-o", made, "-libverbs"], check=True, timeout=120)
    return made


def run(
    words: list[str | Path], level: str = "info", before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"VERBENA_LOG": level}
    return subprocess.run(
        words, capture_output=True, text=True, timeout=50, env=environment, check=False, preexec_fn=before
    )


def with_64_kib_of_locked_memory() -> None:
    """As a user without privileges, in a container with the kernel's old limit."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))


def test_memory_that_is_not_mapped_is_refused_as_hardware_does(registers: Path) -> None:
    ran = run(["env", f"LD_PRELOAD={NIC}", registers, "unmapped"])
    assert ran.stdout == "EFAULT\n", ran
    page = r"ibv_reg_mr: of \[0x(\w+)000, 0x\w+\) the page at 0x(\w+)000 is not mapped; was the memory freed"
    found = re.search(page, ran.stderr)
    assert found, ran.stderr
    assert int(found[2], 16) - int(found[1], 16) == 4


def test_a_right_that_needs_another_one_is_named(registers: Path) -> None:
    ran = run(["env", f"LD_PRELOAD={NIC}", registers, "rights"])
    assert ran.stdout == "EINVAL\n", ran
    assert "remote write or atomic access without IBV_ACCESS_LOCAL_WRITE" in ran.stderr


def test_a_profile_keeps_to_the_limit_of_locked_memory(registers: Path) -> None:
    words = [VERBENA, "run", "--profile", "cx6", "--", registers, "large"]
    ran = run(words, "warn", with_64_kib_of_locked_memory)
    assert ran.stdout == "ENOMEM\n", ran
    assert (
        "ibv_reg_mr: the device pins registered memory, and 409600 bytes more than the 0 KiB that are registered go "
        "beyond RLIMIT_MEMLOCK, which is 64 KiB; raise it: 'ulimit -l unlimited'"
    ) in ran.stderr, ran.stderr


def test_without_a_profile_no_memory_is_pinned_and_no_limit_holds(registers: Path) -> None:
    ran = run(["env", f"LD_PRELOAD={NIC}", registers, "large"], "warn", with_64_kib_of_locked_memory)
    assert (ran.stdout, ran.stderr) == ("registered\n", ""), ran
