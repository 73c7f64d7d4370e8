# SPDX-License-Identifier: Apache-2.0
"""Thread-local bytes are taken from the stack of every thread of a program.

A library may make threads with a small stack: those of civetweb, which serves the metrics, have 100
KiB. 64 KiB of ours once made them overflow.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
BYTES_MAX = 1024


@pytest.mark.parametrize(
    "name",
    [
        "verbena",
        "echo_server",
        "kv_server",
        "performance_test",
        "libverbena-nic.so",
        "libverbena-kv.so",
    ],
)
def test_a_thread_loses_little_of_its_stack_to_us(name: str) -> None:
    done = subprocess.run(
        ["readelf", "--program-headers", "--wide", BUILD / name], capture_output=True, text=True, timeout=60, check=True
    )
    # Offset, virtual and physical address, size in the file, size in memory.
    sizes = [
        int(found[1], 16) for found in re.finditer(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", done.stdout, re.M)
    ]
    assert sum(sizes) <= BYTES_MAX
