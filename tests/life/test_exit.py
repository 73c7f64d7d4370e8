"""A program may end at any moment, also from a signal handler."""

import os
import subprocess
from pathlib import Path

from conftest import DEVICE, LIMIT_S, NIC, build

RUNS = 20


def test_a_handler_that_interrupts_a_poll_may_exit(tmp_path: Path) -> None:
    """At exit the NIC waited for its lock, which the interrupted poll held: fi_pingpong, ended by
    SIGTERM, went on for ever."""
    source = Path(__file__).with_name("exit_in_handler.cc")
    program = build(source, tmp_path / "exit_in_handler", "-lrdmacm", "-Wno-missing-field-initializers")
    for run in range(RUNS):
        done = subprocess.run(
            [program, str(1000 + 37 * run)],
            env=os.environ | {"VERBENA_DEVICES": DEVICE, "LD_PRELOAD": str(NIC)},
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 3, f"run {run}"
