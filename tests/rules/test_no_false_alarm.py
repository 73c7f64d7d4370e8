# SPDX-License-Identifier: Apache-2.0
"""Programs that work, of other people and of ours: the checker finds nothing but what docs/found.md
explains.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked import BUILD, ROOT, VERBENA, has_debug_registers

sys.path.insert(0, str(ROOT / "tests" / "clients"))
from pairs import Command, Runner, free_port, run_pair

# Several messages are received into one buffer, which the program never reads.
OVERLAP = {"recv-overlap"}
# Receives of UD that end in the header of the next one.
UCX = {"recv-touched"}
# It waits for the last byte, as users of this WRITE do.
POLLS = {"poll-memory-write"}
PAIRS: dict[str, set[str]] = {
    "ibv_rc_pingpong -g 0": set(),
    "ibv_rc_pingpong -g 0 -e": set(),
    "ibv_uc_pingpong -g 0": set(),
    "ibv_ud_pingpong -g 0": set(),
    "ibv_srq_pingpong -g 0": OVERLAP,
    "ib_write_lat -n 1000": set(),
    "ib_write_lat -n 1000 -s 4096": POLLS,
    "ib_write_bw -n 1000": set(),
    "ib_read_bw -n 1000": set(),
    "ib_send_lat -n 1000": set(),
    "ib_send_bw -n 1000": OVERLAP,
    "ib_send_bw -n 1000 -c UD": OVERLAP,
    "ib_atomic_lat -n 1000": set(),
    "ib_write_bw -n 1000 -b -q 4": set(),
    "ucx_perftest -t tag_bw -n 1000": UCX,
    "ucx_perftest -t ucp_put_bw -n 500 -s 65536": UCX,
    "ucx_perftest -t ucp_fadd -n 1000 -s 8": UCX,
}
OWN: dict[str, set[str]] = {
    # A window of the sender alone leaves it to RNR NAKs to slow it down, on purpose.
    "bench rcud --sizes 64,8K --windows 16 --iters 2000 --warmup 100 --reps 1 --quiet": {"rq-starved-rnr"},
    "bench scale --clients 4 --transport rdma --seconds 0.3 --warmup 0 --reps 1 --quiet": set(),
    "bench rpc --sizes 128,256K --concurrency 4 --transport rdma --duration 0.3 --warmup 0 --reps 1 --quiet": set(),
    "bench kv --sizes 64,64K --window 16 --iters 2000 --reps 1 --quiet": set(),
}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path, way=["env"])
    yield made
    made.end()


def run_checked(report: Path) -> Command:
    return [VERBENA, "run", "--check=portability", "--report", str(report), "--"]


def rules_in(report: Path) -> set[str]:
    return {finding["rule"] for finding in json.loads(report.read_text())["findings"]}


def found_by_the_ends(runner: Runner, tmp_path: Path, program: str) -> list[set[str]]:
    """Run both ends of a program, and return the rules that each has broken."""
    port = free_port()
    words = [*program.split(), "-p", str(port)]
    reports = [tmp_path / "server.json", tmp_path / "client.json"]
    ran = run_pair(
        runner, [*run_checked(reports[0]), *words], [*run_checked(reports[1]), *words, "127.0.0.1"], port=port
    )
    found = [rules_in(report) for report in reports]
    for rules, side in zip(found, (ran.server, ran.client), strict=True):
        assert side.status == (86 if rules else 0), ran
    return found


@pytest.mark.parametrize("program", PAIRS)
def test_a_program_of_others_breaks_no_other_rule(runner: Runner, tmp_path: Path, program: str) -> None:
    for rules in found_by_the_ends(runner, tmp_path, program):
        assert rules <= PAIRS[program]


# Regression: the first packet of a WRITE was looked at alone, and so only WRITEs of one packet.
@pytest.mark.parametrize("size", [4096, 1048576])
def test_perftest_polls_for_the_last_byte_of_a_write_of_one_packet_or_several(
    runner: Runner, tmp_path: Path, size: int
) -> None:
    if not has_debug_registers():
        pytest.skip("no debug registers here")
    assert POLLS in found_by_the_ends(runner, tmp_path, f"ib_write_lat -n 100 -s {size}")


@pytest.mark.parametrize("program", OWN)
def test_our_own_programs_break_no_rule(runner: Runner, tmp_path: Path, program: str) -> None:
    report = tmp_path / "report.json"
    ran = runner.run([*run_checked(report), str(BUILD / "verbena"), *program.split()])
    found = rules_in(report)
    assert found <= OWN[program] and ran.status == (86 if found else 0), ran
