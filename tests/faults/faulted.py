# SPDX-License-Identifier: Apache-2.0
"""Programs that run with `verbena run --faults`, and what they say about the faults."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, NamespacePair, NotPermitted  # noqa: E402
from pairs import BUILD, Command, PairRan, Ran, Runner, free_port, run_pair  # noqa: E402

__all__ = ["ADDRESSES", "BUILD", "VERBENA", "Faulted", "NamespacePair", "NotPermitted", "PairRan", "Ran", "Runner"]

VERBENA = str(BUILD / "verbena")

Event = dict[str, Any]


def counts(ran: Ran) -> dict[str, int]:
    """The numbers of the line that a process prints at its end: {"seed": 42, "packets sent": 5}."""
    line = re.search(r"verbena: faults of \S+ \(\d+\): seed (\d+)(.*)", ran.output)
    assert line, ran
    found = {"seed": int(line[1])}
    for number, what in re.findall(r", (\d+) ([^,]+)", line[2]):
        found[what] = int(number)
    return found


@dataclass
class Faulted:
    """The way to run programs with faults, on one host (both in one namespace) or between two."""

    runner: Runner
    folder: Path
    wire: NamespacePair

    def run(self, faults: str, command: Command, *options: str) -> Ran:
        words = [VERBENA, "run", "--devices", "+vb_lo", "--faults", faults, *options, "--", *command]
        return self.runner.run(words, lambda inner: self.wire.inside(0, inner))

    def pair(
        self, program: Command, faults: tuple[str, str], *options: str, hosts: int = 1, port_option: str = "-p"
    ) -> PairRan:
        """Run a server and its client. An empty text of `faults` means: without the option.

        An option may have {side} in it, which stands for "server" or "client".
        """
        port = free_port()
        sides = []
        for name, text in zip(("server", "client"), faults, strict=True):
            words = [VERBENA, "run", *(["--faults", text] if text else [])]
            words += [option.format(side=name) for option in options]
            sides.append([*words, "--", *program, port_option, str(port)])
        sides[1].append(ADDRESSES[0])
        return run_pair(
            self.runner,
            sides[0],
            sides[1],
            port=port,
            networks=(lambda inner: self.wire.inside(0, inner), lambda inner: self.wire.inside(hosts - 1, inner)),
        )

    def events(self, name: str) -> list[Event]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def first_losses(self, name: str) -> list[tuple[str, int]]:
        """The requests that were lost when they were sent for the first time: opcode and number."""
        return [
            (event["opcode"], event["packet"])
            for event in self.events(name)
            if event["event"] == "fault" and event["fault"] == "lost" and event["times_before"] == 0
            if "SEND" in event["opcode"]
        ]
