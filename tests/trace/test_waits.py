# SPDX-License-Identifier: Apache-2.0
"""A wait in a verb that never ends has one sentence that says why, after a second."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from traced import NIC, VERBENA, Traced

# The mistake, and the sentence.
WAITS = {
    "unacknowledged": (
        r"ibv_destroy_cq has waited for 1 s, because the program has fetched events of the object and has not "
        r"acknowledged them: 1 by ibv_get_cq_event; call ibv_ack_cq_events \(ibv_destroy_cq\(3\)\)"
    ),
    "unarmed": (
        r"ibv_get_cq_event has waited for 1 s, and no event will come: no completion queue of the channel is armed "
        r"\(there are 1\); call ibv_req_notify_cq before"
    ),
    "held": (
        r"no event will come: a completion queue of the channel holds 3 completions and is not armed; after "
        r"ibv_req_notify_cq poll until the queue is empty, and only then wait"
    ),
    "unpolled": (
        r"no event will come: a completion queue of the channel holds 1 completion that came before it was armed; "
        r"after ibv_req_notify_cq poll until the queue is empty"
    ),
}


def first_line(words: list[str | Path]) -> str:
    """Return the first line on standard error, and end the program, which would wait for ever."""
    environment = os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_LOG": "warn"}
    # timeout(1) ends the program, and so the line, if there is none.
    with subprocess.Popen(
        ["timeout", "30", *words], stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            return process.stderr.readline()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_that_never_ends_is_explained(waits_program: Path, wait: str) -> None:
    line = first_line([waits_program, wait])
    assert re.search(WAITS[wait], line), line


def test_a_wait_for_an_event_that_may_come_is_not_explained(waits_program: Path) -> None:
    environment = os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_LOG": "warn"}
    words = ["timeout", "3", waits_program, "idle"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=50, env=environment, check=False)
    assert (ran.returncode, ran.stderr) == (124, ""), ran


def test_why_explains_a_wait_from_the_trace(traced: Traced, waits_program: Path) -> None:
    words = [*traced.words("trace.txt"), "timeout", "3", str(waits_program), "unarmed"]
    subprocess.run(words, capture_output=True, timeout=50, check=False)
    why = subprocess.run(
        [VERBENA, "why", traced.folder / "trace.txt"], capture_output=True, text=True, timeout=20, check=True
    )
    assert re.search(WAITS["unarmed"], why.stdout), why.stdout
