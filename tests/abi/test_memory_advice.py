# SPDX-License-Identifier: Apache-2.0
"""ibv_advise_mr has the errno values of its manual page."""

import os
import subprocess
from pathlib import Path

from test_exports import LIBRARY

SOURCE = Path(__file__).with_name("memory_advice.c")


def test_an_advice_that_cannot_be_followed_has_the_errno_of_the_manual_page(tmp_path: Path) -> None:
    built = tmp_path / "memory_advice"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, SOURCE, "-o", built, "-libverbs"], check=True, timeout=60)
    environment = {"LD_PRELOAD": str(LIBRARY), "VERBENA_DEVICES": "vb_lo"}
    ran = subprocess.run(
        [built], env=os.environ | environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "done\n")
