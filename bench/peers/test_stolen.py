# SPDX-License-Identifier: Apache-2.0
"""The processors' time that the host took."""

from pathlib import Path

from stolen import ProcessorTimes


def test_the_part_that_the_host_took_counts_guests_once(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    times = []
    for line in ("cpu  100 0 50 800 0 0 10 40 30 0", "cpu  160 0 60 815 0 0 10 55 90 0"):
        stat.write_text(f"{line}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
        times.append(ProcessorTimes.now(stat))
    assert times[0].stolen_until(times[1]) == 0.15


def test_the_machines_own_times_can_be_read() -> None:
    before = ProcessorTimes.now()
    assert before.all > 0
    assert before.stolen_until(before) == 0
