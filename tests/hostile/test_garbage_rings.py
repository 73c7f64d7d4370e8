# SPDX-License-Identifier: Apache-2.0
"""A process of the same user that links with a victim and writes random bytes into the memory that
they share, at full speed, neither stops nor harms the victim's traffic with other processes."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from naks import LIMIT_S, NIC, build

DEVICE, ADDRESS = "vb_lo", "127.0.0.1"
SECONDS = 6.0
ROUND_MS = 300
ROUNDS = 10
RECORDS_MS = 4000
STALL_MAX_MS = 1500
RSS_GROWTH_MAX_KIB = 32 * 1024
DESCRIPTORS_GROWTH_MAX = 8


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    if not NIC.is_file():
        pytest.fail(f"there is no {NIC}: run `make build`", pytrace=False)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stream", "garbage"):
            build(name, Path(folder), "-libverbs")
        yield Path(folder)


def start(program: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["env", f"LD_PRELOAD={NIC}", f"VERBENA_DEVICES={DEVICE}", str(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("victim", ["send", "receive"])
def test_garbage_in_the_rings_of_one_peer_leaves_the_traffic_with_another(programs: Path, victim: str) -> None:
    stream_beside(programs, victim, [(ROUND_MS, seed) for seed in range(ROUNDS)])


@pytest.mark.parametrize("victim", ["send", "receive"])
def test_records_without_an_end_from_one_peer_do_not_stop_the_traffic_with_another(programs: Path, victim: str) -> None:
    stream_beside(programs, victim, [(RECORDS_MS, "records")])


def stream_beside(programs: Path, victim: str, writers: list[tuple[int, object]]) -> None:
    ends = {role: start(programs / "stream", DEVICE, role, int(SECONDS * 1000)) for role in ("send", "receive")}
    garbage: list[subprocess.Popen[str]] = []
    try:
        numbers = {role: end.stdout.readline().split() for role, end in ends.items()}
        for role, other in (("receive", "send"), ("send", "receive")):
            ends[role].stdin.write(f"{' '.join(numbers[other])} {ADDRESS}\n")
            ends[role].stdin.flush()
            assert ends[role].stdout.readline() == "connected\n"
        assert ends["send"].stdout.readline() == "began\n"
        pid = ends[victim].pid
        before = rss_kib(pid), descriptors(pid)
        for milliseconds, what in writers:
            garbage.append(start(programs / "garbage", DEVICE, ADDRESS, numbers[victim][0], milliseconds, what))
            out, err = garbage[-1].communicate(timeout=LIMIT_S)
            assert garbage[-1].returncode == 0 and int(out) > 0, err
        deadline = time.monotonic() + 2  # links of dead processes are freed soon
        while descriptors(pid) > before[1] + DESCRIPTORS_GROWTH_MAX and time.monotonic() < deadline:
            time.sleep(0.01)
        assert descriptors(pid) <= before[1] + DESCRIPTORS_GROWTH_MAX
        assert rss_kib(pid) <= before[0] + RSS_GROWTH_MAX_KIB
        values = {}
        for role, end in ends.items():
            out, err = end.communicate(timeout=LIMIT_S)
            assert end.returncode == 0, (role, err)
            values[role] = dict(line.split() for line in out.splitlines())
        print(values)  # for pytest -rP
        assert values["send"]["messages"] == values["receive"]["messages"]
        assert int(values["send"]["messages"]) > 100
        assert int(values["send"]["stall"]) < STALL_MAX_MS
    finally:
        for process in (*ends.values(), *garbage):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()
