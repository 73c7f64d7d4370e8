# SPDX-License-Identifier: Apache-2.0
"""Objections, which the checks of prose and of coroutines find, and how they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GENERATED = re.compile(r"/(build|build-[^/]*|__pycache__|\.[^/]*_cache)/")


@dataclass(frozen=True)
class Objection:
    """One finding. `number` is the line's, from 1."""

    number: int
    text: str


def tracked_files(*below: str) -> list[Path]:
    """The files that git knows, and those that it would add; only below these folders, if given.

    In a source tarball, which has no git, they are all files outside of build folders.
    """
    if not (ROOT / ".git").exists():
        inside = [path for folder in below or ["."] for path in sorted((ROOT / folder).rglob("*"))]
        return [path for path in inside if path.is_file() and not GENERATED.search(f"/{path.relative_to(ROOT)}")]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *below]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def report(check: str, rule: str, found: Iterable[tuple[Path, Objection]]) -> int:
    """Print each objection as FILE:LINE: TEXT and return the exit status."""
    count = 0
    for path, objection in found:
        shown = path.resolve()
        shown = shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else shown
        print(f"{shown}:{objection.number}: {objection.text}")
        count += 1
    if count:
        print(f"{check}: {count} objections; {rule}", file=sys.stderr)
    return 1 if count else 0
