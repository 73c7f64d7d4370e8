# SPDX-License-Identifier: Apache-2.0
"""rdma_cm refuses an argument that it cannot use, and the id stays as it was."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"


def test_a_refused_argument_has_einval_and_the_next_call_works(tmp_path: Path) -> None:
    program = tmp_path / "arguments"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    source = Path(__file__).with_name("arguments.c")
    subprocess.run(["cc", *flags, source, "-o", program, "-lrdmacm", "-libverbs"], check=True, timeout=60)
    environment = {"LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "vb_lo"}
    ran = subprocess.run(
        [program, "127.0.0.1"],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "done\n")
