#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run the checklist of docs/releasing.md: `make release-check`.

Each line of the page's block in sh is a command and, after #, the fact that it proves. All are run,
also after one has failed. Exit status: 0 if all have passed, 1 if one failed, 2 for wrong usage.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "releasing.md"
LIMIT_S = 2 * 3600


class Check(NamedTuple):
    number: int
    command: str
    fact: str


def read(page: Path) -> list[Check]:
    """Return the commands of the page's first block in sh."""
    block = re.search(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    if block is None:
        raise ValueError(f"{page} has no block of commands in sh")
    lines = [re.split(r"\s+# ", line, maxsplit=1) for line in block[1].splitlines()]
    return [Check(number, *words) for number, words in enumerate(lines, 1)]


def run(check: Check, log: Path) -> bool:
    with log.open("w") as output:
        command = ["timeout", str(LIMIT_S), "bash", "-o", "pipefail", "-c", check.command]
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NUMBERS", help="these lines alone, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the lines and end")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page with the commands (docs/releasing.md)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build-release", help="for the output of each command")
    options = parser.parse_args()
    checks = read(options.page)
    if options.only:
        numbers = options.only.split(",")
        if unknown := set(numbers) - {str(check.number) for check in checks}:
            parser.error(f"no line {', '.join(sorted(unknown))}; the page has {len(checks)}")
        checks = [check for check in checks if str(check.number) in numbers]
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for check in checks:
        if options.list:
            print(f"{check.number:2}  {check.command}  # {check.fact}")
            continue
        begun = time.monotonic()
        log = options.folder / f"{check.number}.log"
        good = run(check, log)
        verdict = "passed" if good else "FAILED"
        print(f"{check.number:2}  {verdict}  {time.monotonic() - begun:5.0f} s  {check.fact}", flush=True)
        if not good:
            failed.append(check.number)
            print("".join(f"      {line}\n" for line in log.read_text(errors="replace").splitlines()[-15:]), end="")
            print(f"      $ {check.command}   (its output: {log})", flush=True)
    if failed:
        print(f"not ready for a release: {len(failed)} of {len(checks)} failed", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
