# SPDX-License-Identifier: Apache-2.0
"""An idle kv_server sleeps: the kernel counts how often its threads have waited."""

import time
from pathlib import Path

import pytest
from programs import Program, Programs, wait_until
from test_kv import client, serve

WAITS_MAX = 12  # in a second, by all threads; a poll each 10 ms would be 100


def waits(server: Program) -> int:
    """Return the number of times that threads of the server have waited (voluntary switches)."""
    counts = [path.read_text() for path in Path(f"/proc/{server.pid}/task").glob("*/status")]
    return sum(int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for text in counts)


def has_a_quiet_second(server: Program) -> bool:
    before = waits(server)
    time.sleep(1)  # the time that is counted in; a busy machine only makes it longer
    return waits(server) - before <= WAITS_MAX


@pytest.mark.parametrize("options", [(), ("--evict",), ("--data", "data")], ids=["plain", "evict", "data"])
def test_an_idle_server_woke_a_hundred_times_a_second(programs: Programs, options: tuple[str, ...]) -> None:
    server, where = serve(programs, *options)
    wait_until(lambda: has_a_quiet_second(server), "a server without clients sleeps", alive=server)
    ran = client(programs, where, "SET key value", "SETEX brief 20ms value", "SETEX long 1h value", "GET key")
    assert ran.status == 0 and ran.out == "value\n", ran
    wait_until(lambda: has_a_quiet_second(server), "a server with keys that end sleeps", alive=server)
    ran = client(programs, where, "GET key", "GET brief", "INFO")
    assert ran.out.startswith("value\n\n") and "\nkeys: 2\n" in ran.out, "it has removed the key whose time is over"
