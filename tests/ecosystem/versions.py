# SPDX-License-Identifier: Apache-2.0
"""Asks each program of the table for its version."""

import os
import re
import shlex
import subprocess

from entry import Program
from wheels import Wheels


class NoVersion(Exception):
    """The program did not say its version."""


def version_of(program: Program, wheels: Wheels) -> str:
    values = {"ucx": wheels.newest_ucx, "wheels": wheels.packages, "python": wheels.python}
    if "{" in program.version:
        wheels.install()
        values |= {"wheels": wheels.packages}
    command = ["env", *shlex.split(program.version.format_map(values))]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, errors="replace", check=False)
    found = re.search(program.pattern, done.stdout + done.stderr)
    if found is None:
        raise NoVersion(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}")
    return found[1]
