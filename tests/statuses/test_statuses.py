# SPDX-License-Identifier: Apache-2.0
"""Runs the table of completion statuses (statuses.cc) on this host and between two hosts.

A failure prints each row whose completions, state or events differ from the table.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from namespaces import INTERFACES, NamespacePair, NotPermitted  # noqa: E402

BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 120


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    made = tmp_path_factory.mktemp("statuses") / "statuses"
    sources = sorted(Path(__file__).parent.glob("*.cc"))
    flags = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(["g++", *flags, *sources, "-o", made, "-libverbs"], check=True)
    return made


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[NamespacePair]:
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


def check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}[status {done.returncode}]"
    assert done.stdout.endswith(" rows, 0 wrong\n")


def on_the_nic(*command: object) -> list[str]:
    return ["env", f"LD_PRELOAD={NIC}", *map(str, command)]


# WRITE, READ and atomics take the ring, or are executed directly in the target's memory: READs
# alone, or with the NIC's heap all of them (docs/decisions/0036). The results are the same.
@pytest.mark.parametrize("setting", ["VERBENA_DIRECT=0", "VERBENA_DIRECT=1", "VERBENA_HEAP=0"])
def test_both_sides_see_the_status_of_each_mistake(program: Path, setting: str) -> None:
    check(on_the_nic("VERBENA_DEVICES=vb_lo", setting, program, "vb_lo"))


def test_both_sides_see_it_when_they_share_one_processor(program: Path) -> None:
    processor = min(os.sched_getaffinity(0))
    check(["taskset", "--cpu-list", str(processor), *on_the_nic("VERBENA_DEVICES=vb_lo", program, "vb_lo")])


def test_both_sides_see_it_between_two_hosts(program: Path, two_hosts: NamespacePair) -> None:
    devices = [f"vb_{interface}" for interface in INTERFACES]
    target = f"/proc/{two_hosts.holder(1)}/ns/net"
    check(two_hosts.inside(0, on_the_nic(program, devices[0], devices[1], target)))
