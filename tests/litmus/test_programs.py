# SPDX-License-Identifier: Apache-2.0
"""Programs of others and our own, under seeds of the adversary: they rely on nothing unsafe."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from table import BUILD, ROOT

sys.path.append(str(ROOT / "tests" / "clients"))
from pairs import Runner, free_port, run_pair

SEEDS = (1, 2)
LIMIT_S = 120
PERFTEST = ["-x", "0", "-n", "100"]
PROGRAMS = {
    "ibv_rc_pingpong": ["ibv_rc_pingpong", "-g", "0", "-n", "200"],
    "ibv_rc_pingpong with events": ["ibv_rc_pingpong", "-g", "0", "-n", "200", "-e"],
    "ibv_srq_pingpong": ["ibv_srq_pingpong", "-g", "0", "-n", "200"],
    **{
        name: [name, *PERFTEST]
        for name in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat", "ib_read_lat")
    },
}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path, way=["env"])
    yield made
    made.end()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pair_succeeds(runner: Runner, name: str, seed: int) -> None:
    port = free_port()
    run = [str(BUILD / "verbena"), "run", "--devices", "vb_lo", f"--adversary={seed}", "--"]
    words = [*run, *PROGRAMS[name], "-p", str(port)]
    pair = run_pair(runner, words, [*words, "localhost"], port=port).check()
    assert f"adversary seed={seed:#x} model=tso" in pair.client.output


def test_a_trace_has_the_decisions(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    words = [str(BUILD / "verbena"), "run", "--adversary=1", f"--trace={trace}", "--", str(BUILD / "performance_test")]
    words += ["-c", "5", "-n", "10", "-t", "0", "-m", "100", "--window", "4"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    lines = trace.read_text()
    assert done.returncode == 0, done
    for kind in ("placement", "gather", "completions", "connections"):
        assert f"adversary {kind}: holds back" in lines, kind


# Regression: receives whose completions came late were lost with their queue pair.
@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_of_a_channel_leaves_the_shared_receive_queue_its_buffers(seed: int) -> None:
    words = [str(BUILD / "verbena"), "run", "--devices", "vb_lo", f"--adversary={seed}", "--"]
    words += [str(BUILD / "bench" / "lib_channel_test"), "--gtest_filter=RcChannelEnd.*:Drain.*:AbandonedReads.*"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout, done


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", ["100", "1M"])
def test_an_echo_server_loses_and_mixes_up_nothing(seed: int, size: str) -> None:
    words = [str(BUILD / "verbena"), "run", f"--adversary={seed}", "--", str(BUILD / "performance_test")]
    words += ["-c", "5", "-n", "10", "-t", "0", "-m", size, "--window", "4"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0 and "0 lost, 0 wrong echo" in done.stdout, done
