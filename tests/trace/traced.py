# SPDX-License-Identifier: Apache-2.0
"""Programs that run with `verbena run --trace`, and the traces that they leave."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from pairs import BUILD, NIC, Command, PairRan, Runner, free_port, listens, run_pair  # noqa: E402

__all__ = ["BUILD", "NIC", "Command", "PairRan", "Runner", "Traced", "free_port", "listens", "run_pair"]

VERBENA = str(BUILD / "verbena")

Event = dict[str, Any]


@dataclass
class Traced:
    """The way to run programs with a trace, each in a file of its own in `folder`."""

    runner: Runner
    folder: Path

    def words(self, name: str, *options: str) -> Command:
        return [VERBENA, "run", f"--trace={self.folder / name}", *options, "--"]

    def pair(self, program: Command, name: str = "trace.json", *options: str) -> PairRan:
        """Run the program as a server and as a client of this host, with the port in `-p`.

        An option may have {side} in it, which stands for "server" or "client".
        """
        port = free_port()
        command = [*program, "-p", str(port)]

        def words(side: str) -> Command:
            return self.words(f"{side}-{name}", *(option.format(side=side) for option in options))

        return run_pair(
            self.runner,
            [*words("server"), *command],
            [*words("client"), *command, "127.0.0.1"],
            port=port,
        ).check()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def events(self, name: str) -> list[Event]:
        return [json.loads(line) for line in self.text(name).splitlines()]


def of_kind(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["event"] == kind]
