#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spdx.py [--add] [FILE...]: require the line with the licence (SPDX) at the top of source files.

It is a comment of its own in the first line, or in the second if the first begins with #!. Without
files, every source file that git knows is checked; files of data and documents need no such line.
--add adds the line where it is missing.

Example: tests/lint/spdx.py --add nic/wire/bth.h
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from objections import Objection, report, tracked_files

TAG = "SPDX-License-Identifier: Apache-2.0"
SLASHES, HASH, BLOCK, JINJA = "// {}", "# {}", "/* {} */", "{{# {} #}}"
# Comments by the end of a file's name, or by the whole name.
STYLES = {
    **dict.fromkeys([".c", ".cc", ".h", ".go", ".rs", ".js", ".proto"], SLASHES),
    **dict.fromkeys([".py", ".sh", ".cmake", ".toml", ".service", ".spec", ".in", ".capnp", ".yml", ".yaml"], HASH),
    **dict.fromkeys(["Makefile", "CMakeLists.txt", ".clang-format", ".clang-tidy", "Dockerfile"], HASH),
    **dict.fromkeys([".S", ".css", ".map"], BLOCK),
    ".html": JINJA,
}
# A comment right above these would be the text of a package's documentation.
APART = {".go"}


def wanted(path: Path, source: str) -> str | None:
    """Return the line that a file must have; None if it is no source file."""
    style = STYLES.get(path.name) or STYLES.get(path.suffix)
    if style is None and source.startswith("#!"):
        style = HASH
    # An empty file is nothing that a licence could be for.
    return style.format(TAG) if style and source else None


def has(source: str, line: str) -> bool:
    lines = source.split("\n", 2)
    return lines[1 if source.startswith("#!") and len(lines) > 1 else 0] == line


def added(path: Path, source: str, line: str) -> str:
    """Return the source with the line."""
    gap = "\n" if path.suffix in APART else ""
    if not source.startswith("#!"):
        return f"{line}\n{gap}{source}"
    first, _, rest = source.partition("\n")
    return f"{first}\n{line}\n{gap}{rest}"


def missing(files: list[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yield each file without its line: the path, the source and the line."""
    for path in files:
        if path.is_symlink() or not path.is_file():
            continue
        try:
            source = path.read_text()
        except UnicodeDecodeError:
            continue  # a picture
        line = wanted(path, source)
        if line and not has(source, line):
            yield path, source, line


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="spdx.py [--add] [FILE...]"
    )
    parser.add_argument("--add", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for path in options.files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    found = missing(options.files or tracked_files())
    if not options.add:
        return report(
            "spdx",
            "spdx.py --add adds the line",
            ((path, Objection(1, f"no line `{line}`")) for path, _, line in found),
        )
    for path, source, line in found:
        path.write_text(added(path, source, line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
