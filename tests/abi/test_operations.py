# SPDX-License-Identifier: Apache-2.0
"""ibv_wr_post(3) is for queue pairs that were made for it, with the operations that they name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_program.build(Path(__file__).with_name("operations.c"), tmp_path_factory.mktemp("operations"))


def run(program: Path, *words: str, **environment: str) -> None:
    ran = one_program.run(program, *words, **environment)
    assert ran.returncode == 0 and "done" in ran.stderr.splitlines(), ran


def test_a_queue_pair_without_send_ops_flags_has_no_extended_form(program: Path) -> None:
    run(program)


def test_a_strict_nic_refuses_an_operation_that_was_not_asked_for(program: Path) -> None:
    run(program, "strict", VERBENA_ADVERSARY="1")
