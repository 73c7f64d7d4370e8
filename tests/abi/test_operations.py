# SPDX-License-Identifier: Apache-2.0
"""ibv_wr_post(3) is for queue pairs that were made for it, with the operations that they name."""

import os
import subprocess
from pathlib import Path

import pytest
from test_exports import LIBRARY

SOURCE = Path(__file__).with_name("operations.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("operations") / "operations"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, SOURCE, "-o", built, "-libverbs"], check=True, timeout=60)
    return built


def run(command: list[str | Path], **environment: str) -> None:
    surroundings = os.environ | {"LD_PRELOAD": str(LIBRARY), "VERBENA_DEVICES": "vb_lo"} | environment
    ran = subprocess.run(command, env=surroundings, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ran.returncode == 0 and "done" in ran.stderr.splitlines(), ran


def test_a_queue_pair_without_send_ops_flags_has_no_extended_form(program: Path) -> None:
    run([program])


def test_a_strict_nic_refuses_an_operation_that_was_not_asked_for(program: Path) -> None:
    run([program, "strict"], VERBENA_ADVERSARY="1")
