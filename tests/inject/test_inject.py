# SPDX-License-Identifier: Apache-2.0
"""A sample of the fault injection (`make inject`): one trial of each system call of the NIC."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))


def test_a_failing_system_call_is_a_clean_error() -> None:
    command = [sys.executable, str(Path(__file__).parent / "run.py"), "--quick", "--build", str(BUILD)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"
