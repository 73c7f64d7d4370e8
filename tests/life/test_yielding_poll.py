# SPDX-License-Identifier: Apache-2.0
"""A poll that yields the processor returns the completions that came meanwhile."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import DEVICE, LIMIT_S, NIC, build


@pytest.mark.parametrize("kind", ["plain", "extended"])
def test_a_poll_that_yielded_returns_what_came_meanwhile(tmp_path: Path, kind: str) -> None:
    """libfabric's rxm saw its peer's disconnection before the completion, and gave up."""
    program = build(
        Path(__file__).with_name("yielding_poll.cc"),
        tmp_path / "yielding_poll",
        "-rdynamic",
        "-Wno-missing-field-initializers",
    )
    done = subprocess.run(
        [program, kind],
        env=os.environ | {"VERBENA_DEVICES": DEVICE, "LD_PRELOAD": str(NIC)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout == "1\n"
