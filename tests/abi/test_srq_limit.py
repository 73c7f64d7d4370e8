# SPDX-License-Identifier: Apache-2.0
"""A program learns that few receives are left in a shared receive queue, once for each limit."""

import os
import subprocess
from pathlib import Path

from test_exports import LIBRARY

SOURCE = Path(__file__).with_name("srq_limit.c")


def test_the_limit_of_a_shared_receive_queue_gives_one_event(tmp_path: Path) -> None:
    built = tmp_path / "srq_limit"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, SOURCE, "-o", built, "-libverbs"], check=True, timeout=60)
    environment = {"LD_PRELOAD": str(LIBRARY), "VERBENA_DEVICES": "vb_lo"}
    ran = subprocess.run(
        [built], env=os.environ | environment, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "done\n")
