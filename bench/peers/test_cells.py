# SPDX-License-Identifier: Apache-2.0
"""Each program of a cell measures what the title of the cell says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cells import OURS, Cell, Sample
from limits import limit_cells
from places import Place, Wire
from programs import Machine
from same_host import crowd_cells, one_sided_cells, passive_cells, send_cells, thread_cells
from wire import wire_cells

EVERY = {"mops": 1.0, "us": 1.0, "p99_us": 1.0, "mean_us": 1.0, "gib_per_s": 1.0, "overruns": 0.0}


class Recorder(Machine):
    """A machine that runs nothing and keeps the words of each call."""

    def __init__(self) -> None:
        super().__init__(Path(), (0, 1))
        object.__setattr__(self, "calls", [])

    def note(self, *words: object) -> Sample:
        self.calls.append(" ".join(map(str, words)))  # type: ignore[attr-defined]
        return Sample(EVERY)

    def ucx(
        self, test: list[str], size: int, iterations: int, place: Place | None = None, rank: float = 50.0
    ) -> Sample:
        return self.note(*test, "size", size, "iterations", iterations)

    def ucx_latency(self, size: int, iterations: int, place: Place) -> Sample:
        return self.note("tag_lat size", size, "iterations", iterations)

    def perftest(
        self,
        program: str,
        options: list[str],
        size: int,
        iterations: int,
        place: Place | None = None,
        heap: bool = True,
    ) -> Sample:
        return self.note(program, *options, "size", size, "iterations", iterations, *["ordinary"][int(heap) :])

    def rcud(self, op: str, size: int, window: int, iterations: int) -> Sample:
        return self.note(op, "-W", window, "size", size, "iterations", iterations)

    def iperf(self, seconds: float, place: Place) -> Sample:
        return self.note("iperf3")

    def datagrams(self, size: int, message: int, milliseconds: int, place: Place) -> Sample:
        return self.note("datagrams", size, message)

    def small(self, program: str, *options: object, heap: bool = True) -> dict[str, float | str]:
        self.note(program, *options, *["ordinary"][int(heap) :])
        return {"p50_us": 1.0, "p99_us": 1.0, "mops": 1.0, "empty_poll_ns": 1.0, "message_ns": 1.0}

    def line(self) -> tuple[float, str]:
        return 100.0, "near"

    def copy(self, size: int) -> Sample:
        return self.note("copy", size)


def all_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    yield from limit_cells(machine)
    for cells in (send_cells, one_sided_cells, passive_cells, thread_cells, crowd_cells):
        yield from cells(machine, quick)
    for mtu in (1500, 9000):
        yield from wire_cells(machine, quick, Wire(mtu))


def calls_of(title: str, quick: bool = True) -> dict[str, str]:
    """Run each contestant of a cell; return the call that each made."""
    machine = Recorder()
    (cell,) = [cell for cell in list(all_cells(machine, quick)) if cell.title == title]
    made = {}
    for contestant in cell.contestants:
        contestant.run()
        made[contestant.name] = machine.calls[-1]  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("quick", [True, False])
def test_each_row_has_a_title_of_its_own_and_each_program_a_name(quick: bool) -> None:
    cells = list(all_cells(Recorder(), quick))
    assert len({cell.title for cell in cells}) == len(cells)
    for cell in cells:
        assert len({contestant.name for contestant in cell.contestants}) == len(cell.contestants)


@pytest.mark.parametrize("quick", [True, False])
def test_each_program_gives_the_figures_of_its_row(quick: bool) -> None:
    for cell in list(all_cells(Recorder(), quick)):
        for contestant in cell.contestants:
            assert cell.metrics[0].name in contestant.run().values, (cell.title, contestant.name)


def test_a_send_row_has_its_size_and_window_in_each_program() -> None:
    assert calls_of("SEND 32 B, window 4") == {
        OURS: "send -W 4 size 32 iterations 50000",
        "UCX tag_bw": "-t tag_bw -O 4 size 32 iterations 50000",
        "UCT am_bw": "-t am_bw -d memory -x posix -D short -W 4 size 32 iterations 50000",
        "verbena, ib_send_bw": "ib_send_bw -t 4 --cq-mod 1 size 32 iterations 50000",
    }


def test_a_rival_that_does_not_read_the_payload_is_not_beside_8_kib() -> None:
    assert list(calls_of("SEND 8 KiB, window 64")) == [OURS, "UCX tag_bw", "verbena, ib_send_bw"]
    assert "UCT am_bw" in calls_of("SEND 4 KiB, window 64", quick=False)


def test_latencies_have_equal_sizes_and_iterations() -> None:
    assert calls_of("WRITE 64 KiB, one way") == {
        OURS: "ib_write_lat size 65536 iterations 2000",
        "verbena, ordinary memory": "ib_write_lat size 65536 iterations 2000 ordinary",
        "UCX ucp_put_lat": "-t ucp_put_lat size 65536 iterations 2000",
    }
    assert calls_of("MTU 9000: SEND 8 B, one way") == {
        OURS: "ib_send_lat size 8 iterations 2000",
        "UCX tcp tag_lat": "tag_lat size 8 iterations 2000",
    }


def test_a_target_sleeps_or_computes_as_its_row_says() -> None:
    assert calls_of("READ 8 KiB, target sleeps") == {
        OURS: "peers_passive sleeps read 8192 2000",
        "verbena, ordinary memory": "peers_passive sleeps read 8192 2000 ordinary",
        "verbena, ordinary memory, target polls": "peers_passive polls read 8192 2000 ordinary",
        "UCX ucp_get -o": "-t ucp_get -o -O 1 size 8192 iterations 10000",
    }
    assert list(calls_of("WRITE 8 B, target computes")) == [
        OURS,
        "verbena, ordinary memory",
        "verbena, ordinary memory, target polls",
    ]


def test_two_threads_are_beside_one_thread_and_two_processes() -> None:
    assert calls_of("two threads, SEND 64 B, window 64") == {
        OURS: "peers_threads 2 threads 64 64 150",
        "verbena, one thread": "peers_threads 1 threads 64 64 150",
        "verbena, two processes": "peers_threads 2 processes 64 64 150",
    }


def test_a_bulk_row_has_packets_of_the_size_that_its_mtu_allows() -> None:
    assert calls_of("MTU 1500: WRITE 1 MiB, window 16") == {
        OURS: "ib_write_bw -t 16 --cq-mod 1 size 1048576 iterations 200",
        "UCX tcp tag_bw": "-t tag_bw -O 16 size 1048576 iterations 200",
        "iperf3": "iperf3",
        "UDP GSO": "datagrams 1040 1024",
    }
    assert calls_of("MTU 9000: WRITE 1 MiB, window 1")["UDP GSO"] == "datagrams 4112 4096"


def test_small_messages_of_the_wire_have_packets_of_their_size() -> None:
    assert calls_of("MTU 1500: SEND 64 B, window 64") == {
        OURS: "ib_send_bw -t 64 --cq-mod 1 size 64 iterations 50000",
        "UCX tcp tag_bw": "-t tag_bw -O 64 size 64 iterations 50000",
        "UDP GSO": "datagrams 80 64",
    }


def test_small_writes_are_beside_a_rival_with_equal_copies_and_one_without() -> None:
    assert calls_of("WRITE 64 B, window 64") == {
        OURS: "ib_write_bw -t 64 --cq-mod 1 size 64 iterations 50000",
        "verbena, ordinary memory": "ib_write_bw -t 64 --cq-mod 1 size 64 iterations 50000 ordinary",
        "UCX tag_bw": "-t tag_bw -O 64 size 64 iterations 50000",
        "UCX ucp_put_bw": "-t ucp_put_bw -O 64 size 64 iterations 50000",
        "verbena, bench rcud": "write -W 64 size 64 iterations 50000",
    }
