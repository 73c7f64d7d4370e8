# SPDX-License-Identifier: Apache-2.0
"""An rdma_cm id's multicast groups: the host is a member of each once, and of none at the end."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"


def test_the_host_is_a_member_of_a_group_while_a_queue_pair_is(tmp_path: Path) -> None:
    program = tmp_path / "groups"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    source = Path(__file__).with_name("groups.c")
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
