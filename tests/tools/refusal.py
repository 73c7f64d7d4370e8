# SPDX-License-Identifier: Apache-2.0
"""Runs a program without certain system calls, by the filter of tests/old_kernels/refuse.c."""

import subprocess
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "old_kernels" / "refuse.c"

# Maps a rule to the words that run a command under it: the argument `within` of Programs.start().
Refuse = Callable[[str], Callable[[list[str]], list[str]]]


def compile_refuse(folder: Path) -> Refuse:
    program = folder / "refuse"
    subprocess.run(["gcc", "-O1", "-o", program, SOURCE], check=True)

    def refuse(rule: str) -> Callable[[list[str]], list[str]]:
        return lambda command: [str(program), rule, "--", *command]

    return refuse
