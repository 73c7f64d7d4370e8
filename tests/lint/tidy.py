#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run clang-tidy on the files named on standard input, one a line, as many at a time as there are
processors.

A file without findings is remembered, by everything that clang-tidy sees of it: its text and that
of all headers that it includes, its compile command, .clang-tidy, and clang-tidy's version. It is
not looked at again until one of these changes. So a run that was interrupted goes on where it
stopped.

Exit status: 0 if no file has findings, 1 if one has or cannot be read.
"""

import argparse
import functools
import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Command(NamedTuple):
    folder: str
    words: list[str]


def commands_in(build: Path) -> dict[str, list[Command]]:
    """Return the compile commands of each file of a build folder."""
    commands: dict[str, list[Command]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = Command(entry["directory"], shlex.split(entry["command"]))
        commands.setdefault(entry["file"], []).append(command)
    return commands


def files_read(command: Command) -> list[Path] | None:
    """Return the file and all headers that it includes; None if it cannot be preprocessed."""
    output = command.words.index("-o")
    words = [*command.words[:output], *command.words[output + 2 :], "-M"]
    done = subprocess.run(words, cwd=command.folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    # A rule of a makefile: its target, a colon, the files.
    _, *files = shlex.split(done.stdout.replace("\\\n", " "))
    return [Path(command.folder, file) for file in files]


@functools.cache
def digest_of(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


class Tidy:
    """Looks at files, and remembers those without findings."""

    def __init__(self, build: Path, program: str) -> None:
        self.build, self.program = build, program
        self.commands = commands_in(build)
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.common = version.encode() + (ROOT / ".clang-tidy").read_bytes()
        self.clean = build / "lint" / "clean"
        self.clean.mkdir(parents=True, exist_ok=True)

    def mark_of(self, file: str) -> Path | None:
        """Return the path that exists if the file has no findings; None if it cannot be read."""
        seen = hashlib.sha256(self.common)
        for command in self.commands[file]:
            files = files_read(command)
            if files is None:
                return None
            seen.update("\0".join([*command.words, *map(str, files)]).encode())
            for read in files:
                seen.update(digest_of(read))
        return self.clean / seen.hexdigest()

    def look(self, file: str) -> str | None:
        """Return "clean" or "clean before"; None after findings, which are printed."""
        mark = self.mark_of(file)
        if mark and mark.exists():
            return "clean before"
        words = [self.program, "--quiet", "-p", str(self.build), file]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        notes = [line for line in done.stderr.splitlines() if "warnings generated" not in line]
        if done.returncode != 0:
            print(done.stdout + "\n".join(notes), flush=True)
            return None
        if mark:
            mark.touch()
        return "clean"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="a configured build folder with compile_commands.json")
    parser.add_argument("--program", default="clang-tidy-19", help="the name of clang-tidy (%(default)s)")
    given = parser.parse_args()
    tidy = Tidy(given.build, given.program)
    files = [str(Path(word).resolve()) for word in sys.stdin.read().split()]
    if unknown := [file for file in files if file not in tidy.commands]:
        parser.error(f"{given.build} does not compile {', '.join(unknown)}")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(tidy.look, files))
    before = results.count("clean before")
    print(f"clang-tidy: {len(files)} files, {before} of them clean before and unchanged", file=sys.stderr)
    return 1 if None in results else 0


if __name__ == "__main__":
    sys.exit(main())
