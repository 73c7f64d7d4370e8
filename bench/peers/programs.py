# SPDX-License-Identifier: Apache-2.0
"""Runs the measuring programs, each pinned to one of two cores.

The sender (client) runs on the first core, the receiver (server) on the second. Each method of
Machine makes one run.
"""

import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cells import Missing, NoResult, Sample
from outputs import (
    OVERRUNS_FILE,
    parse_iperf,
    parse_overruns,
    parse_own,
    parse_perftest,
    parse_rcud,
    parse_ucx,
)
from places import Host, Place, find
from processes import LIMIT_S, listens, run, run_pair

# Processors without SCHED_FIFO when --realtime is used: the machine stops if none is left.
PROCESSORS_FOR_OTHERS = 1


def free_port() -> int:
    """Return a TCP port that no process of this namespace uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def words(variables: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variables.items()]


@dataclass(frozen=True)
class Machine:
    """The build to measure and the two cores to measure on."""

    build: Path
    cores: tuple[int, int]
    realtime: bool = False  # use SCHED_FIFO, so that no other program runs on the two cores

    def check(self) -> None:
        """Raise Missing if no measurement at all is possible."""
        for program, package in (("taskset", "util-linux"), ("setpriv", "util-linux")):
            find(program, package)
        for program in ("verbena", "libverbena-nic.so", "bench/peers_limits"):
            if not (self.build / program).exists():
                raise Missing(f"{self.build / program} does not exist: build it with 'make build'")
        if not self.realtime:
            return
        if (os.cpu_count() or 1) < len(self.cores) + PROCESSORS_FOR_OTHERS:
            raise Missing("--realtime needs a third processor: SCHED_FIFO on all of them would stop the machine")
        if subprocess.run(["chrt", "-f", "10", "true"], capture_output=True, check=False).returncode != 0:
            raise Missing("--realtime needs the right to use SCHED_FIFO: run as root or with CAP_SYS_NICE")

    def pinned(self, cores: Sequence[int], command: list[str]) -> list[str]:
        """Return the command that runs `command` on these cores, and dies with this program."""
        realtime = f"timeout -s KILL {LIMIT_S} prlimit --rttime={LIMIT_S}000000 chrt -f 10".split()
        return [
            *["setpriv", "--pdeathsig", "KILL"],
            *(realtime if self.realtime else []),
            *["taskset", "-c", ",".join(map(str, cores)), *command],
        ]

    def on_nic(self, command: list[str], device: str, heap: bool = True) -> list[str]:
        """Return the command that runs a program of verbs on our NIC.

        heap: the program's page-aligned memory is in the heap that peers can map, as by default.
        """
        nic = str((self.build / "libverbena-nic.so").resolve())
        variables = {"LD_PRELOAD": nic, "VERBENA_DEVICES": device, "VERBENA_HEAP": str(int(heap))}
        return ["env", *words(variables), *command]

    def pair(
        self, place: Place, server: list[str], client: list[str], port: int, protocol: str = "tcp"
    ) -> tuple[str, str]:
        """Run a server on side 1 and its client on side 0; return what both printed."""
        pid = place.pid(1)
        return run_pair(
            place.inside(1, self.pinned(self.cores[1:], server)),
            place.inside(0, self.pinned(self.cores[:1], client)),
            lambda: listens(port, protocol, pid),
        )

    def ucx(
        self, test: list[str], size: int, iterations: int, place: Place | None = None, rank: float = 50.0
    ) -> Sample:
        """Measure with ucx_perftest; `test` are the options that choose the test."""
        place = place or Host()
        port = free_port()
        common = [find("ucx_perftest", "ucx-utils"), "-p", str(port)]
        # The server gets the test from the client.
        options = f"-s {size} -n {iterations} -w {min(iterations // 10, 10_000)} -R {rank:g} -f -v".split()
        sides = [[*common, place.address(1), *test, *options], common]
        commands = [
            place.ucx_command(["env", *words({**place.ucx(side), "UCX_WARN_UNUSED_ENV_VARS": "n"}), *command])
            for side, command in enumerate(sides)
        ]
        _, printed = self.pair(place, commands[1], commands[0], port)
        return parse_ucx(printed, iterations, size, rank)

    def ucx_latency(self, size: int, iterations: int, place: Place) -> Sample:
        """Measure a latency by two runs of tag_lat: ucx_perftest prints one percentile only."""
        median = self.ucx(["-t", "tag_lat"], size, iterations, place)
        tail = self.ucx(["-t", "tag_lat"], size, iterations, place, rank=99.0)
        return Sample({"us": median.values["us"], "p99_us": tail.values["us"]})

    def perftest(
        self,
        program: str,
        options: list[str],
        size: int,
        iterations: int,
        place: Place | None = None,
        heap: bool = True,
    ) -> Sample:
        """Measure with a program of perftest, over our NIC; over a wire count the overruns too."""
        place = place or Host()
        port = free_port()
        path = find(program, "perftest")
        counters = ["-W", OVERRUNS_FILE] if place.device(0) != place.device(1) else []
        common = [*f"-F -x 0 -s {size} -n {iterations} -p {port}".split(), *options, *counters]
        server = self.on_nic([path, "-d", place.device(1), *common], place.device(1), heap)
        client = self.on_nic([path, "-d", place.device(0), *common, place.address(1)], place.device(0), heap)
        served, printed = self.pair(place, server, client, port)
        sample = parse_perftest(printed, iterations, size)
        # The server receives, so datagrams overflow there.
        return Sample(sample.values | {"overruns": parse_overruns(served)}) if counters else sample

    def rcud(self, op: str, size: int, window: int, iterations: int) -> Sample:
        """Measure with `verbena bench rcud`.

        It pins its two processes itself, to the first two cores that it may use, the sender to the
        first one.
        """
        options = f"bench rcud --quiet --modes rc --ops {op} --window-mode local --device {Host().device(0)}"
        options += f" --sizes {size} --windows {window}"
        options += f" --iters {iterations} --warmup {iterations // 10} --reps 1 --json -"
        command = [str((self.build / "verbena").resolve()), *options.split()]
        return parse_rcud(run(self.pinned(self.cores, command)))

    def iperf(self, seconds: float, place: Place) -> Sample:
        """Measure a plain TCP stream with iperf3."""
        port = free_port()
        program = find("iperf3", "iperf3")
        server = [program, "--server", "--one-off", "--port", str(port)]
        client = [program, "--client", place.address(1), "--port", str(port), "--time", f"{seconds:g}", "--json"]
        return parse_iperf(self.pair(place, server, client, port)[1])

    def datagrams(self, size: int, message: int, milliseconds: int, place: Place) -> Sample:
        """Measure the kernel's limit for datagrams of this size that carry `message` bytes each."""
        port = free_port()
        program = self.own("peers_datagrams")
        server = [program, "receive", place.address(1), str(port), str(size)]
        client = [program, "send", place.address(1), str(port), str(size), str(milliseconds)]
        received, sent = self.pair(place, server, client, port, "udp")
        found = parse_own("peers_datagrams", received)
        parse_own("peers_datagrams", sent)
        rate = float(found["mops"])
        return Sample({"mops": rate, "gib_per_s": rate * 1e6 * message / 2**30})

    def own(self, program: str) -> str:
        return str((self.build / "bench" / program).resolve())

    def small(self, program: str, *options: object, heap: bool = True) -> dict[str, float | str]:
        """Run one of our own small programs on both cores and our NIC; return what it prints."""
        command = self.on_nic([self.own(program), *map(str, options)], Host().device(0), heap)
        return parse_own(program, run(self.pinned(self.cores, command)))

    def line(self) -> tuple[float, str]:
        """Return the round trip of a cache line between the two cores, in ns, and its class."""
        command = [self.own("peers_limits"), "line"]
        found = parse_own("peers_limits", run(self.pinned(self.cores, command)))
        if not isinstance(found.get("rtt_ns"), float) or not isinstance(found.get("class"), str):
            raise NoResult("peers_limits printed no round trip")
        return float(found["rtt_ns"]), str(found["class"])

    def copy(self, size: int) -> Sample:
        """Measure memcpy on the first core."""
        command = [self.own("peers_limits"), "copy", str(size)]
        found = parse_own("peers_limits", run(self.pinned(self.cores[:1], command)))
        return Sample({"gib_per_s": float(found["gib_per_s"])})
