# SPDX-License-Identifier: Apache-2.0
"""The cells that are measured between two processes of this host."""

from collections.abc import Callable, Iterator

from cells import MOPS, OURS, US, Cell, Contestant, Metric, Sample, size_name
from programs import Machine

SEND_SIZES = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
QUICK_SEND_SIZES = [8, 32, 64, 8192]
WINDOWS = [4, 64]
LATENCY_SIZES = [8, 1024, 8192]
ONE_SIDED_SIZES = [8, 1024, 8192, 65536]
PASSIVE_SIZES = [8, 8192]
UCT_SHORT_MAX = 64  # bytes; above it UCT's posix transport copies through a buffer (bcopy)
UCT_READ_MAX = 4096  # bytes; its receiver does not read the payload, which counts above this size
CROWDS = [16, 64]

EMPTY_POLL = Metric("empty_poll_ns", "ns", smaller_is_better=True, suffix=", an empty poll")
MESSAGE = Metric("message_ns", "ns", smaller_is_better=True, suffix=", a message of one of them")


def iterations_for(size: int, quick: bool) -> int:
    """Return iterations for some tens of milliseconds.

    The machine changes with time: many short runs in turn see the same state of it, a few long ones
    do not.
    """
    iterations = 200_000 if size <= 512 else 100_000 if size <= 2048 else 40_000 if size <= 8192 else 8_000
    return iterations // 4 if quick else iterations


def with_mean(run: Callable[[], Sample]) -> Callable[[], Sample]:
    """Return a run whose latency is the mean of all operations instead of a percentile."""

    def ran() -> Sample:
        sample = run()
        return Sample(sample.values | {"us": sample.values["mean_us"]}, sample.doubt)

    return ran


def both_memories(run: Callable[[bool], Sample]) -> tuple[Contestant, Contestant]:
    """Return our NIC with buffers that peers can map (`run(True)`), and with ordinary ones."""
    return Contestant(OURS, lambda: run(True)), Contestant("verbena, ordinary memory", lambda: run(False))


def send_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    """SEND rates at two windows, and the latency of SEND."""
    for window in WINDOWS:
        for size in QUICK_SEND_SIZES if quick else SEND_SIZES:
            n = iterations_for(size, quick)
            layout = "short" if size <= UCT_SHORT_MAX else "bcopy"
            tag = ["-t", "tag_bw", "-O", str(window)]
            am = ["-t", "am_bw", "-d", "memory", "-x", "posix", "-D", layout, "-W", str(window)]
            depth = ["-t", str(window), "--cq-mod", "1"]
            contestants = [
                Contestant(OURS, lambda s=size, w=window, n=n: machine.rcud("send", s, w, n)),
                Contestant("UCX tag_bw", lambda s=size, n=n, t=tag: machine.ucx(t, s, n)),
                Contestant("UCT am_bw", lambda s=size, n=n, t=am: machine.ucx(t, s, n)),
                Contestant("verbena, ib_send_bw", lambda s=size, n=n, d=depth: machine.perftest("ib_send_bw", d, s, n)),
            ]
            if size > UCT_READ_MAX:
                del contestants[2]
            yield Cell("send", f"SEND {size_name(size)}, window {window}", (MOPS,), tuple(contestants))
    for size in LATENCY_SIZES:
        n = 5_000 if quick else 20_000
        yield Cell(
            "send",
            f"SEND {size_name(size)}, one way",
            (US,),
            (
                Contestant(OURS, lambda s=size, n=n: machine.perftest("ib_send_lat", [], s, n)),
                Contestant("UCX tag_lat", lambda s=size, n=n: machine.ucx(["-t", "tag_lat"], s, n)),
            ),
        )


def one_sided_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    """WRITE and READ latency, and the rate of small WRITEs."""
    for size in ONE_SIDED_SIZES:
        n = 2_000 if quick or size > 8192 else 10_000
        put = ["-t", "ucp_put_lat"]
        get = ["-t", "ucp_get", "-O", "1"]
        yield Cell(
            "onesided",
            f"WRITE {size_name(size)}, one way",
            (US,),
            (
                *both_memories(lambda heap, s=size, n=n: machine.perftest("ib_write_lat", [], s, n, heap=heap)),
                Contestant("UCX ucp_put_lat", lambda s=size, n=n, t=put: machine.ucx(t, s, n)),
            ),
        )
        yield Cell(
            "onesided",
            f"READ {size_name(size)}, whole operation",
            (US,),
            (
                *both_memories(lambda heap, s=size, n=n: machine.perftest("ib_read_lat", [], s, n, heap=heap)),
                Contestant("UCX ucp_get", lambda s=size, n=n, t=get: machine.ucx(t, s, n)),
            ),
        )
    small = iterations_for(64, quick)
    yield Cell(
        "onesided",
        "WRITE 64 B, window 64",
        (MOPS,),
        (
            *both_memories(
                lambda heap: machine.perftest("ib_write_bw", ["-t", "64", "--cq-mod", "1"], 64, small, heap=heap)
            ),
            Contestant("UCX tag_bw", lambda: machine.ucx(["-t", "tag_bw", "-O", "64"], 64, small)),
            Contestant("UCX ucp_put_bw", lambda: machine.ucx(["-t", "ucp_put_bw", "-O", "64"], 64, small)),
            Contestant("verbena, bench rcud", lambda: machine.rcud("write", 64, 64, small)),
        ),
    )


def passive_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    """WRITE and READ to a program that makes no call of verbs."""
    n = 2_000 if quick else 10_000

    def target(how: str, what: str, size: int, heap: bool) -> Sample:
        found = machine.small("peers_passive", how, what, size, n, heap=heap)
        return Sample({"us": float(found["p50_us"]), "p99_us": float(found["p99_us"])})

    for how in ("sleeps", "computes"):
        for what, test in (("write", "ucp_put_bw"), ("read", "ucp_get")):
            for size in PASSIVE_SIZES:
                # UCX's target waits in a system call, too (-o); its time is the mean of operations.
                ucx = ["-t", test, "-o", "-O", "1"]
                rival = with_mean(lambda s=size, t=ucx: machine.ucx(t, s, 5 * n))
                yield Cell(
                    "passive",
                    f"{what.upper()} {size_name(size)}, target {how}",
                    (US,),
                    (
                        *both_memories(lambda heap, h=how, w=what, s=size: target(h, w, s, heap)),
                        Contestant(
                            "verbena, ordinary memory, target polls",
                            lambda w=what, s=size: target("polls", w, s, False),
                        ),
                        *([Contestant(f"UCX {test} -o", rival)] if how == "sleeps" else []),
                    ),
                )


def thread_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    """Two threads of a process beside one thread, and beside two processes."""

    def workers(count: int, kind: str, window: int) -> Callable[[], Sample]:
        def run() -> Sample:
            found = machine.small("peers_threads", count, kind, 64, window, 150 if quick else 400)
            return Sample({"mops": float(found["mops"])})

        return run

    for window in WINDOWS:
        yield Cell(
            "threads",
            f"two threads, SEND 64 B, window {window}",
            (MOPS,),
            (
                Contestant(OURS, workers(2, "threads", window)),
                Contestant("verbena, one thread", workers(1, "threads", window)),
                Contestant("verbena, two processes", workers(2, "processes", window)),
            ),
        )


def crowd_cells(machine: Machine, quick: bool) -> Iterator[Cell]:
    """A process with connections to many idle processes, beside one with a single connection."""

    def crowd(peers: int) -> Callable[[], Sample]:
        def run() -> Sample:
            found = machine.small("peers_crowd", peers, 50_000 if quick else 200_000)
            return Sample({name: float(value) for name, value in found.items()})

        return run

    for peers in CROWDS:
        yield Cell(
            "crowd",
            f"{peers} peers",
            (EMPTY_POLL, MESSAGE),
            (Contestant(OURS, crowd(peers)), Contestant("verbena, one peer", crowd(1))),
        )
