# SPDX-License-Identifier: Apache-2.0
"""A thread that polls an empty completion queue lets other threads have the queue's lock."""

import os
import subprocess
from pathlib import Path

from conftest import DEVICE, LIMIT_S, NIC, build

RESETS = 50


def test_a_thread_that_polls_an_empty_queue_does_not_hold_up_a_reset_of_its_queue_pair(tmp_path: Path) -> None:
    """The poller yielded the processor while it held the lock, so each reset took 40 to 100 ms."""
    program = build(Path(__file__).with_name("contended_queue.cc"), tmp_path / "contended_queue", "-pthread")
    done = subprocess.run(
        [program, DEVICE, str(RESETS)],
        env=os.environ | {"VERBENA_DEVICES": DEVICE, "LD_PRELOAD": str(NIC)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert int(done.stdout) < RESETS * 20
