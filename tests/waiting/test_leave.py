# SPDX-License-Identifier: Apache-2.0
"""A thread that is cancelled in a blocking verb, or leaves it by siglongjmp(), takes nothing along:
events still arrive, for every thread of the process.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"
LIMIT_S = 60
VERBS = ("get_cq_event", "get_async_event", "destroy_cq", "get_cm_event")


@pytest.fixture(scope="module")
def leave(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    program = tmp_path_factory.mktemp("leave") / "leave"
    source = Path(__file__).parent / "leave.c"
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-O1", "-pthread", "-o", program, source, "-libverbs", "-lrdmacm"], check=True
    )
    yield program


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", ["cancel", "jump"])
def test_a_thread_that_leaves_a_blocking_verb_loses_no_events(leave: Path, way: str, verb: str) -> None:
    done = subprocess.run(
        [leave, way, verb, "5"],
        env={**os.environ, "LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "vb_lo"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
