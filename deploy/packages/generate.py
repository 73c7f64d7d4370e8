#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the man pages and the completion of programs, from what they print for --help."""

import argparse
import gzip
from pathlib import Path

import completion
import help_text
import manual


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True, help="the version that the pages name")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the pages and completions")
    parser.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM", help="the paths of the programs")
    options = parser.parse_args()
    for program in options.programs:
        command = help_text.read(program.resolve())
        for each in command.family():
            page = manual.page(each, options.version).encode()
            path = options.out / "man" / f"{each.name}.1.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a time and a name in it, so that equal pages are equal files.
            path.write_bytes(gzip.compress(page, compresslevel=9, mtime=0))
        write(options.out / "bash" / program.name, completion.bash(command))
        write(options.out / "zsh" / f"_{program.name}", completion.zsh(command))
        write(options.out / "fish" / f"{program.name}.fish", completion.fish(command))


if __name__ == "__main__":
    main()
