# SPDX-License-Identifier: Apache-2.0
"""The receiver of a measurement dies, or is stopped for a while: the rows must say so."""

import os
import signal
import time
from pathlib import Path

import pytest
from programs import Program, Programs, children, stop, wait_until
from rcud_rows import only, read_csv, read_json

CELLS = [(mode, window_mode) for mode in ("rc", "ud") for window_mode in ("local", "credit")]
WINDOW, RECEIVES = 64, 256
FOREVER = 1_000_000_000
STOPPED_S = 0.5  # the time that a receiver is stopped: longer than the silence that ends a UD run


def delivered(receiver: int) -> int:
    """The number of messages that a running receiver has counted so far.

    It is the third word of the page that the receiver shares with the sender
    (bench/rcud/round_trip.h).
    """
    try:
        with Path(f"/proc/{receiver}/fd/4").open("rb") as page:
            page.seek(2 * 128)
            return int.from_bytes(page.read(8), "little")
    except OSError:
        return 0  # the page does not exist yet


def start(programs: Programs, mode: str, window_mode: str, iterations: int, *options: object) -> tuple[Program, int]:
    """Start a run, wait until it is under way, and return the sender and the receiver's pid."""
    where = (
        "--modes",
        mode,
        "--window-mode",
        window_mode,
        "--sizes",
        64,
        "--windows",
        WINDOW,
        "--csv",
        "rows.csv",
        "--json",
        "rows.json",
    )
    sender = programs.start(
        "verbena", "bench", "rcud", "--quiet", *where, "--iters", iterations, "--warmup", 0, "--reps", 1, *options
    )
    (receiver,) = wait_until(lambda: children(sender.pid), "the receiver is there", alive=sender)
    wait_until(lambda: delivered(receiver) > 500, "the run is under way", alive=sender)
    return sender, receiver


@pytest.mark.parametrize(("mode", "window_mode"), CELLS)
def test_a_killed_receiver_makes_the_row_invalid_and_delivered_stops(
    programs: Programs, mode: str, window_mode: str
) -> None:
    sender, receiver = start(programs, mode, window_mode, FOREVER)
    seen = delivered(receiver)
    os.kill(receiver, signal.SIGKILL)
    ran = sender.finish(15)
    assert ran.status == 1, ran
    assert f"{mode.upper()} send 64 B window {WINDOW} {window_mode}" in ran.err, ran
    rows, environment = read_csv(programs.folder / "rows.csv")
    row = only(rows, mode=mode.upper(), window_mode=window_mode)
    assert row["validity"] == "invalid" and row["reason"].startswith("repetition 1: "), row
    assert float(row["mops"]) == 0, "no rate is claimed"
    assert 500 < seen <= int(row["delivered"]) <= int(row["posted"]) < FOREVER, row
    # Credits bound the messages that the receiver has not read. Acknowledgements bound only those
    # that are not in one of its receives yet.
    unread_max = WINDOW if window_mode == "credit" else WINDOW + RECEIVES if mode == "rc" else FOREVER
    assert int(row["posted"]) - int(row["delivered"]) <= unread_max, row
    (counts,) = read_json(programs.folder / "rows.json")[0][0]["repetitions"]
    assert counts["failure"] and counts["delivered"] == int(row["delivered"])
    assert environment["device"] == "vb_lo"


@pytest.mark.parametrize(("mode", "window_mode"), CELLS)
def test_a_receiver_that_is_stopped_for_a_while_finishes_with_all_counts(
    programs: Programs, mode: str, window_mode: str
) -> None:
    iterations = 40_000  # at 100 us each: a run of 4 s, so the stop falls into it
    sender, receiver = start(programs, mode, window_mode, iterations, "--receiver-delay-ns", 100_000)
    stop(receiver)
    seen, until = delivered(receiver), time.monotonic() + STOPPED_S
    wait_until(lambda: time.monotonic() >= until, "it has stood still", alive=sender)
    assert delivered(receiver) == seen < iterations
    os.kill(receiver, signal.SIGCONT)
    ran = sender.finish()
    assert ran.status == 0, ran
    (row,) = read_csv(programs.folder / "rows.csv")[0]
    assert int(row["posted"]) == int(row["completed"]) == iterations, row
    assert int(row["delivered"]) + int(row["lost"]) == iterations, row
    assert row["duplicated"] == row["reordered"] == "0", row
    if mode == "rc" or window_mode == "credit":
        assert row["lost"] == "0" and row["validity"] == "valid", row
    else:
        assert int(row["delivered"]) > 0 and row["validity"] in ("valid", "suspect"), row


def test_a_killed_sender_takes_its_receiver_with_it(programs: Programs) -> None:
    sender, receiver = start(programs, "rc", "local", FOREVER)
    sender.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{receiver}"), "the receiver is gone")
