# SPDX-License-Identifier: Apache-2.0
"""Runs the program in the way its users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from report.experiments import read_source
from report.tables import Source

TIME_LIMIT_S = 180  # two seconds on a quiet machine
OWN_SCRIPTS = 3  # the data, Chart.js and page.js
REPORT = Path(__file__).resolve().parent.parent


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPORT), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)


def read(path: Path) -> Source:
    """Read a table as the program does: with the experiment and the verdicts of the judge."""
    return read_source(path, path.stem)[1]
