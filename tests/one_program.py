# SPDX-License-Identifier: Apache-2.0
"""C programs that examine the NIC from one process, and print "done" at the end."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"


def build(source: Path, folder: Path, *libraries: str) -> Path:
    """Compile the program into the folder, with libibverbs and these libraries."""
    built = folder / source.stem
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, source, "-o", built, *libraries, "-libverbs"], check=True, timeout=60)
    return built


def run(program: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program on the NIC, with the device vb_lo alone; standard error is kept."""
    return subprocess.run(
        [program, *words],
        env=os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "vb_lo"} | environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


def examine(source: Path, folder: Path, *words: str, libraries: tuple[str, ...] = ()) -> None:
    """Build and run a program that prints nothing but "done"."""
    ran = run(build(source, folder, *libraries), *words)
    assert (ran.returncode, ran.stderr) == (0, "done\n")
