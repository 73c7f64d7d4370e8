# SPDX-License-Identifier: Apache-2.0
"""With --data, every acknowledged change is there after a power failure at any moment."""

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from disk_after_power_loss import MADE_FILE, MADE_FOLDER, SYNCED, WROTE, Record, after_power_loss, read_log
from programs import ROOT, Programs, wait_until
from test_kv import build_c, serve

WRITERS, SETS = 3, 60
FAILURES = 200 if os.environ.get("VERBENA_HOSTILE") == "long" else 12


def shim(programs: Programs) -> Path:
    library = programs.folder / "power_loss.so"
    source = ROOT / "tests" / "kv" / "power_loss.c"
    ran = programs.run(shutil.which("cc"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library, "-ldl")
    assert ran.status == 0, ran
    return library


def record_a_life(programs: Programs, numbered: Path) -> tuple[list[Record], list[tuple[int, int, int, int]]]:
    """Kill a server while clients change their keys.

    Return what it wrote, and each acknowledgement as (time, writer, key, number).
    """
    log, disk = programs.folder / "log", programs.folder / "disk"
    disk.mkdir()
    watched = {
        "LD_PRELOAD": str(shim(programs)),
        "POWER_LOSS_FOLDER": str(disk),
        "POWER_LOSS_LOG": str(log),
    }
    server, where = serve(programs, "--data", disk / "store", environment=watched)
    clients = {writer: programs.start(numbered, where, writer, 10 * SETS) for writer in range(1, WRITERS + 1)}
    for client in clients.values():
        wait_until(lambda client=client: client.out.count("\n") >= SETS, "it has set some keys", alive=client)
    server.process.send_signal(signal.SIGKILL)
    acknowledged = []
    for writer, client in clients.items():
        for line in client.finish().out.splitlines():
            _, key, number, time_ns = line.split()
            acknowledged.append((int(time_ns), writer, int(key), int(number)))
    return read_log(log), acknowledged


def lost_changes(
    programs: Programs, numbered: Path, folder: Path, acknowledged: list[tuple[int, int, int, int]]
) -> list[str]:
    """Start a server on a folder; return the missing acknowledged changes and torn values."""
    due: dict[tuple[int, int], int] = {}
    for _, writer, key, number in acknowledged:
        due[writer, key] = max(due.get((writer, key), 0), number)
    server, where = serve(programs, "--data", folder)
    lost = []
    for writer in range(1, WRITERS + 1):
        ran = programs.run(numbered, where, writer, "get")
        if ran.status != 0:
            lost.append(ran.err)
        for line in ran.out.splitlines():
            _, key, number = line.split()
            if int(number) < due.get((writer, int(key)), 0):
                lost.append(f"writer {writer} key {key}: {number} instead of {due[writer, int(key)]}")
    server.kill()
    return lost


@pytest.fixture
def numbered(programs: Programs) -> Path:
    return build_c(programs, ROOT / "tests" / "kv" / "numbered.c")


def test_no_acknowledged_change_is_lost_at_any_power_failure(programs: Programs, numbered: Path) -> None:
    records, acknowledged = record_a_life(programs, numbered)
    kinds = {kind: sum(record.kind == kind for record in records) for kind in (WROTE, SYNCED, MADE_FILE, MADE_FOLDER)}
    assert kinds[WROTE] > 100 and kinds[SYNCED] > 50 and kinds[MADE_FILE] >= 2 and kinds[MADE_FOLDER] == 1, kinds
    luck = random.Random(1)
    for failure in range(FAILURES):
        # The first acknowledgement may follow the folder's first synchronisation closely.
        cut = luck.randrange(len(records)) if failure > 2 else len(records) * failure // 20 + 12
        time_ns = records[cut].time_ns
        folder = programs.folder / f"disk{failure}"
        after_power_loss(records[: cut + 1], programs.folder / "disk", folder, failure)
        before = [ack for ack in acknowledged if ack[0] < time_ns]
        assert lost_changes(programs, numbered, folder / "store", before) == [], f"failure {failure} at record {cut}"
        shutil.rmtree(folder)


def test_a_disk_that_ignores_synchronisation_is_seen_to_lose_changes(programs: Programs, numbered: Path) -> None:
    """The check itself: without the server's synchronisation the same failures lose changes."""
    records, acknowledged = record_a_life(programs, numbered)
    seen = 0
    for failure in range(3):
        folder = programs.folder / f"disk{failure}"
        after_power_loss(records, programs.folder / "disk", folder, failure, honest_sync=False)
        try:
            seen += lost_changes(programs, numbered, folder / "store", acknowledged) != []
        except pytest.fail.Exception:
            seen += 1  # the server finds a file that is not a database, and ends
    assert seen == 3
