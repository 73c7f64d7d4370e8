# SPDX-License-Identifier: Apache-2.0
"""Queue pairs join multicast groups and leave them, as ibv_attach_mcast(3) says."""

import os
import subprocess
from pathlib import Path

from test_exports import LIBRARY

SOURCE = Path(__file__).with_name("multicast_groups.c")


def test_a_queue_pair_joins_each_group_once_and_leaves_all(tmp_path: Path) -> None:
    built = tmp_path / "multicast_groups"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, SOURCE, "-o", built, "-libverbs"], check=True, timeout=60)
    environment = {"LD_PRELOAD": str(LIBRARY), "VERBENA_DEVICES": "vb_lo"}
    ran = subprocess.run(
        [built], env=os.environ | environment, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "done\n")
