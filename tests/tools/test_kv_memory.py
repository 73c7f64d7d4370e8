# SPDX-License-Identifier: Apache-2.0
"""`--memory` is the budget of the server's process, whatever sizes its values have."""

import os
import re
import time
from pathlib import Path

import pytest
from programs import ROOT, Programs, wait_until
from test_kv import HOST, build_c, serve

MIB = 1 << 20
SECONDS = float(os.environ.get("VERBENA_KV_MEMORY_SECONDS", "0"))
MEMORY = (256 if SECONDS else 96) * MIB


def own_bytes(pid: int) -> int:
    """Return the resident memory of a process, without the memory of clients that its NIC maps."""
    own = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(file.stat().st_ino)
        except FileNotFoundError:
            continue
    total, counts = 0, True
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if begin := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)\s*(.*)", line):
            counts = not begin[2].startswith("/memfd:verbena-memory") or int(begin[1]) in own
        elif counts and (found := re.match(r"Rss:\s+(\d+) kB", line)):
            total += int(found[1]) * 1024
    return total


def test_mixed_sizes_stay_in_the_budget_and_fill_it(programs: Programs) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "mixed.c")
    server, where = serve(programs, "--memory", MEMORY)
    client = programs.start(program, where, 1, 10**12 if SECONDS else 8000, SECONDS or 50)
    most, deadline = 0, time.monotonic() + SECONDS + 55
    while client.running:
        most = max(most, own_bytes(server.pid))
        assert time.monotonic() < deadline, client.out
        time.sleep(0.2)
    most = max(most, own_bytes(server.pid))
    ran = client.finish()
    assert ran.status == 0, ran
    shown = [[int(word) for word in line.split()] for line in ran.out.splitlines()]
    full = [stored for _, _, stored in shown if stored > 0]
    assert len(full) > len(shown) / 3, ran.out
    assert min(full) > 0.85 * MEMORY, min(full) / MEMORY
    assert most < 1.15 * MEMORY + 64 * MIB, most / MIB
    if SECONDS:
        print(f"{shown[-1][0]} changes; resident {most / MIB:.0f} MiB, live {min(full) / MEMORY:.3f} when full")


def test_a_budget_that_its_receive_buffers_exceed_is_refused(programs: Programs) -> None:
    ran = programs.run(
        "kv_server", "--listen", HOST, "--port", 0, "--memory", "1M", "--rx-depth", 30_000, "--eager-max", "16K"
    )
    assert ran.status == 1, ran
    assert "receive buffers" in ran.err and "--rx-depth" in ran.err, ran


@pytest.mark.parametrize("memory", ["0", "1000K", "4T"])
def test_a_budget_out_of_range_is_a_usage_error(programs: Programs, memory: str) -> None:
    ran = programs.run("kv_server", "--memory", memory)
    assert ran.status == 2 and "--memory" in ran.err, ran


def test_a_full_store_starts_again_with_its_folder(programs: Programs) -> None:
    """The content of a store fits into a store of the same size, in whatever order it is read."""
    program = build_c(programs, ROOT / "tests" / "kv" / "mixed.c")
    server, where = serve(programs, "--memory", "16M", "--data", "store")
    assert programs.run(program, where, 2, 400, 50, limit_s=60).status == 0
    before = re.search(r"(\d+) keys, (\d+) bytes", server.end().out)
    again, _ = serve(programs, "--memory", "16M", "--data", "store")
    after = re.search(r"(\d+) keys, (\d+) bytes", again.end().out)
    assert before and after and before.groups() == after.groups()


def test_a_key_of_a_full_store_can_be_overwritten_while_its_value_is_read(programs: Programs) -> None:
    """A client that holds a value's lease makes a SET of this key wait at most, and not fail."""
    server, where = serve(programs, "--memory", "1M", "--lease-ms", 500)
    value = "v" * 900_000
    commands = programs.folder / "commands.txt"
    commands.write_text(f"SET key {value}\n" + f"GET key\nSET key {value}\n" * 3)
    ran = programs.run("kv_client", where, commands, "--proto", "rndv")
    assert ran.status == 0, ran.err
    wait_until(lambda: server.running, "the server serves on", alive=server)
