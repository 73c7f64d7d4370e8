#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the sonames and the exported symbols of our libraries with the committed lists.

A program that was built with an earlier version needs each symbol of these lists. A symbol that is
removed, or moved to another version, takes a new soname (SOVERSION). A new one is added to the list
by --write, in the same commit.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = ROOT / "tests" / "release" / "exported"
LIBRARIES = ("libverbena-nic", "libverbena-kv")
EXAMPLE = "example: tests/release/symbols.py --build build --write"


def interface(library: Path) -> list[str]:
    """Return the soname, and the names of the symbols with their versions, in order."""

    def output(*command: str) -> str:
        return subprocess.run([*command, str(library)], capture_output=True, text=True, timeout=60, check=True).stdout

    (soname,) = re.findall(r"\(SONAME\).*\[(.*)\]", output("readelf", "-d", "--wide"))
    symbols = [line.split() for line in output("nm", "-D", "--defined-only").splitlines()]
    # The kind A is that of the versions themselves.
    return [f"soname {soname}", *sorted(name for _, kind, name in symbols if kind != "A")]


def differences(name: str, build: Path) -> tuple[list[str], list[str]]:
    """Return the lines of a library's list that the build lacks, and those that the list lacks."""
    committed = (LISTS / f"{name}.txt").read_text().splitlines()
    built = interface(build / f"{name}.so")
    return [line for line in committed if line not in built], [line for line in built if line not in committed]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("VERBENA_BUILD", ROOT / "build")))
    parser.add_argument("--write", action="store_true", help="write the lists from the build")
    options = parser.parse_args()
    status = 0
    for name in LIBRARIES:
        if options.write:
            (LISTS / f"{name}.txt").write_text("\n".join(interface(options.build / f"{name}.so")) + "\n")
            continue
        removed, added = differences(name, options.build)
        for line in removed:
            print(f"{name}: removed: {line}")
        for line in added:
            print(f"{name}: not in the list: {line}")
        status |= bool(removed or added)
    return status


if __name__ == "__main__":
    sys.exit(main())
