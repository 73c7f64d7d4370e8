# SPDX-License-Identifier: Apache-2.0
"""Programs that run with `verbena run --profile`, and the table of profiles that it prints."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from pairs import BUILD, LIMIT_S, Command, PairRan, Ran, Runner, free_port, run_pair  # noqa: E402

__all__ = ["BUILD", "ROOT", "VERBENA", "PairRan", "Profiled", "Ran", "Runner", "Table", "free_port", "printed", "table"]

VERBENA = str(BUILD / "verbena")

# Row -> profile -> cell.
Table = dict[str, dict[str, str]]


def printed(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `verbena run WORDS` without a program on the NIC."""
    return subprocess.run(
        [VERBENA, "run", *words], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=without_profile()
    )


def without_profile() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("VERBENA_")} | {"LC_ALL": "C"}


def table() -> Table:
    """The table of `verbena run --profile=list`."""
    ran = printed("--profile=list")
    assert ran.returncode == 0, ran
    lines = ran.stdout.split("\n\n")[0].splitlines()
    names = lines[0].split()
    rows = {}
    for line in lines[1:]:
        name, *cells = re.split(r"  +", line)
        rows[name] = dict(zip(names, cells, strict=True))
    return rows


@dataclass
class Profiled:
    """The way to run programs on the devices of this host, with the limits of a profile.

    An empty profile means: without the option.
    """

    runner: Runner

    def words(self, profile: str, command: Command, log: str = "warn") -> Command:
        chosen = [f"--profile={profile}"] if profile else []
        return [VERBENA, "run", "--devices", "+vb_lo", "--log", log, *chosen, "--", *command]

    def run(self, profile: str, command: Command, log: str = "warn") -> Ran:
        return self.runner.run(self.words(profile, command, log))

    def pair(self, profile: str, program: Command) -> PairRan:
        """Run a server and its client, both with the profile, on vb_lo."""
        port = free_port()
        words = [*program, "-p", str(port)]
        return run_pair(self.runner, self.words(profile, words), self.words(profile, [*words, "127.0.0.1"]), port=port)
