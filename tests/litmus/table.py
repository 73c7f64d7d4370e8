# SPDX-License-Identifier: Apache-2.0
"""The table of docs/memory-model.md, and runs of the litmus tests."""

import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")).resolve()
PAGE = ROOT / "docs" / "memory-model.md"
MODELS = ("tso", "iba", "loose")
SOURCES = sorted((ROOT / "tests" / "litmus").glob("*.c"))
LIMIT_S = 300


@dataclass
class Row:
    name: str
    allowed: dict[str, bool]  # by model
    seen: str  # the last column


def rows(text: str) -> list[Row]:
    """Read the rows of the table of tests."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 7 or not set(cells[3:6]) <= {"allowed", "forbidden"}:
            continue
        allowed = {model: cell == "allowed" for model, cell in zip(MODELS, cells[3:6], strict=True)}
        found.append(Row(cells[0], allowed, cells[6]))
    return found


def compile_litmus(folder: Path) -> Path:
    program = folder / "litmus"
    words = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run([*words, "-o", str(program), *map(str, SOURCES), "-libverbs"], check=True, timeout=LIMIT_S)
    return program


def run(program: Path, adversary: str | None, rounds: int, tests: list[str]) -> Counter[str]:
    """Run the tests, and return in how many rounds the outcome of each was seen."""
    option = [f"--adversary={adversary}"] if adversary is not None else []
    words = [str(BUILD / "verbena"), "run", "--devices", "vb_lo", *option, "--", str(program), str(rounds), *tests]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    seen = Counter()
    for name, count in re.findall(r"^(\S+) \d+ (\d+)$", done.stdout, re.MULTILINE):
        seen[name] += int(count)
    return seen
