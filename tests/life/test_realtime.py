# SPDX-License-Identifier: Apache-2.0
"""A program under SCHED_FIFO that spins on memory leaves its processor to the progress thread."""

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"
PORT = "18525"
PERFTEST = ["ib_write_lat", "-F", "-x", "0", "-s", "8", "-n", "500", "-p", PORT]


def listens(pid: int) -> bool:
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    wanted = f":{int(PORT):04X} "
    return any(wanted in line and " 0A " in line for table in tables for line in table.read_text().splitlines())


def test_a_target_under_sched_fifo_that_spins_on_memory_ends() -> None:
    """Only one processor gets a real-time program, for at most 20 seconds without a pause."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a real-time program would have the only processor")
    realtime = ["prlimit", "--rttime=20000000", "timeout", "25", "chrt", "-f", "10"]
    if subprocess.run([*realtime, "true"], capture_output=True, timeout=30, check=False).returncode != 0:
        pytest.skip("real-time scheduling is not permitted here")
    one, other = sorted(os.sched_getaffinity(0))[:2]
    environment = {**os.environ, "LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "vb_lo"}
    # The NIC is for perftest, not for the programs that start it.
    nic = ["env", f"LD_PRELOAD={NIC}", "VERBENA_DEVICES=vb_lo"]
    target = subprocess.Popen(
        ["taskset", "-c", str(one), *realtime, *nic, *PERFTEST], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 20
        while not listens(target.pid):
            assert target.poll() is None and time.monotonic() < deadline, "the target does not listen"
            time.sleep(0.002)  # the pause between two checks
        client = subprocess.run(
            ["taskset", "-c", str(other), *PERFTEST, "127.0.0.1"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert client.returncode == 0, client.stdout + client.stderr
        assert target.wait(20) == 0, target.stderr.read().decode()
    finally:
        target.kill()
        target.communicate()
