# SPDX-License-Identifier: Apache-2.0
"""A queue has a free slot for each completion that a program has polled (refill.cc).

`make slow` runs this for a minute each, with VERBENA_REFILL_SECONDS=60.
"""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import DEVICE, NIC, build

SECONDS = float(os.environ.get("VERBENA_REFILL_SECONDS", "1"))
LIMIT_S = SECONDS + 60
# Far below the number of a loaded machine, far above the depth of the queues.
COMPLETIONS_MIN = 500


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("refill.cc")
    target = tmp_path_factory.mktemp("refill") / "refill"
    return build(source, target, "-Wno-missing-field-initializers", "-pthread")


def run(program: Path, place: str, queues: str, count: int) -> None:
    """Start `count` processes, exchange their numbers, and expect that each ends well."""
    processes: list[subprocess.Popen[str]] = []
    limited = ["timeout", "--kill-after=1", str(LIMIT_S)]
    try:
        for _ in range(count):
            processes.append(
                subprocess.Popen(
                    [*limited, program, place, queues, str(SECONDS)],
                    env=os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_DEVICES": DEVICE},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        if count == 2:
            numbers = [p.stdout.readline() for p in processes]
            for p, number in zip(processes, reversed(numbers), strict=True):
                p.stdin.write(number)
                p.stdin.flush()
        verdicts = [p.stdout.readline().split() for p in processes]
        rests = [p.communicate()[0] for p in processes]
        for p, verdict, rest in zip(processes, verdicts, rests, strict=True):
            assert verdict[:1] == ["ok"] and p.returncode == 0, f"exit code {p.returncode}: {verdict} {rest}"
            assert int(verdict[1]) > COMPLETIONS_MIN
    finally:
        for p in processes:
            p.kill()
            p.wait()


@pytest.mark.parametrize("queues", ["rq", "srq", "error"])
def test_a_completion_is_seen_only_after_its_slot_is_free(program: Path, queues: str) -> None:
    run(program, "self", queues, 1)


@pytest.mark.parametrize("queues", ["rq", "srq"])
def test_a_completion_of_another_process_is_seen_only_after_its_slot_is_free(program: Path, queues: str) -> None:
    run(program, "peer", queues, 2)
