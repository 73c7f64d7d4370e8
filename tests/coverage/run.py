#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run all tests on a build with coverage counters, and write what ran: `make coverage`.

BUILD is a build folder of the preset `coverage`. The pages are BUILD/html/index.html. The output
has the shares of lines and branches of each room and the least covered files; BUILD/coverage.json
has them for each file. A killed process writes no counters, so the figures are lower bounds.

Exit status: that of the tests.
"""

import argparse
import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
LLVM = "-19"
ROOMS = ("base", "nic", "lib", "bench", "tools")


class Covered(NamedTuple):
    """Counts of one file or room."""

    name: str
    lines: int
    lines_run: int
    branches: int
    branches_run: int

    def line_share(self) -> float:
        return self.lines_run / self.lines if self.lines else 1.0

    def branch_share(self) -> float:
        return self.branches_run / self.branches if self.branches else 1.0


def files_of(exported: dict, root: Path) -> list[Covered]:
    """Read the files of the project, without its tests, from llvm-cov's JSON."""
    found = []
    for file in exported["data"][0]["files"]:
        path = Path(file["filename"])
        if not path.is_relative_to(root) or path.relative_to(root).parts[0] not in ROOMS:
            continue
        if path.stem.endswith("_test") or "fixture" in path.stem:
            continue
        lines, branches = file["summary"]["lines"], file["summary"]["branches"]
        name = str(path.relative_to(root))
        found.append(Covered(name, lines["count"], lines["covered"], branches["count"], branches["covered"]))
    return found


def together(name: str, files: Iterable[Covered]) -> Covered:
    files = list(files)
    return Covered(name, *(sum(file[i] for file in files) for i in range(1, 5)))


def rooms_of(files: list[Covered]) -> list[Covered]:
    """Return each top folder and, of nic and lib, each room."""
    names = sorted({"/".join(file.name.split("/")[:depth]) for file in files for depth in (1, 2)})
    names = [
        name for name in names if "." not in name and (name.count("/") == 0 or name.split("/")[0] in ("nic", "lib"))
    ]
    return [together(name, (file for file in files if file.name.startswith(name + "/"))) for name in names]


def least_covered(files: list[Covered], count: int) -> list[Covered]:
    """Return the files with the most lines that no test runs."""
    return sorted(files, key=lambda file: file.lines_run - file.lines)[:count]


def table(rows: Iterable[Covered]) -> str:
    text = f"{'':42} {'lines':>7} {'run':>6} {'branches':>9} {'run':>6}\n"
    for row in rows:
        text += f"{row.name:42} {row.lines:7} {row.line_share():6.1%} {row.branches:9} {row.branch_share():6.1%}\n"
    return text


def order_of(path: Path) -> int:
    """Return the place of a program or library among the arguments of llvm-cov.

    A program that includes a header and does not use one of its functions has an empty map of that
    function. If llvm-cov reads it before a map with counters, the function counts as never run. So
    the tests of the floors, which use the headers beside them, are first.
    """
    floors = ("base_test", "nic_", "lib_")
    if path.name.endswith("_test"):
        return 0 if path.name.startswith(floors) else 3
    return 1 if path.suffix == ".so" else 2


def objects_in(build: Path) -> list[str]:
    """Return the programs and libraries with coverage maps, as arguments of llvm-cov."""
    found = []
    every = [*build.glob("*"), *build.glob("bench/*"), *build.glob("fuzz/*")]
    for path in sorted(every, key=lambda path: (order_of(path), path)):
        if path.is_symlink() or not path.is_file() or not (os.access(path, os.X_OK) or path.suffix == ".so"):
            continue
        if path.read_bytes()[:4] == b"\x7fELF":
            found.append(str(path))
    return [found[0], *(word for path in found[1:] for word in ("-object", path))]


def share(folder: Path) -> None:
    """Let all users write all files that will be in the folder, whatever the umask is.

    Processes of other users, which some tests start, merge their counters into the same files. In a
    folder with the sticky bit the kernel may refuse that (fs.protected_regular).
    """
    folder.chmod(0o777)
    owner, group, others = 0x01, 0x04, 0x20  # acl(5), <linux/posix_acl.h>
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (owner, group, others))
    with contextlib.suppress(OSError):  # without ACLs the other users' counters are lost
        os.setxattr(folder, "system.posix_acl_default", rights)


def tool(name: str, *words: object, output: Path | None = None) -> str:
    """Run an LLVM program; its output goes to a file, or is returned."""
    command = [name + LLVM, *(str(word) for word in words)]
    if output is not None:
        with output.open("w") as file:
            subprocess.run(command, stdout=file, check=True)
        return ""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, metavar="BUILD")
    parser.add_argument("--no-run", action="store_true", help="use the counters of the last run")
    parser.add_argument("--least", type=int, default=10, metavar="N", help="files to list (10)")
    options = parser.parse_args()
    build = options.build.resolve()
    profiles = build / "profiles"

    status = 0
    if not options.no_run:
        profiles.mkdir(exist_ok=True)
        share(profiles)
        for old in profiles.glob("*.profraw"):
            old.unlink()
        # %4m: the processes of one program share four files, which they merge into.
        environment = os.environ | {"LLVM_PROFILE_FILE": str(profiles / "%4m.profraw")}
        status = subprocess.run(
            [sys.executable, "tests/run.py", "--build", str(build)], cwd=ROOT, env=environment
        ).returncode

    raw = sorted(profiles.glob("*.profraw"))
    if not raw:
        print(f"{profiles} has no counters; run without --no-run", file=sys.stderr)
        return 2
    merged = build / "merged.profdata"
    tool("llvm-profdata", "merge", "-sparse", "--failure-mode=all", *raw, "-o", merged)
    objects = objects_in(build)
    ours = [f"-instr-profile={merged}", "-ignore-filename-regex=^/usr/|_test\\.cc$|/build"]
    exported = json.loads(tool("llvm-cov", "export", "-summary-only", *objects, *ours))
    files = files_of(exported, ROOT)
    (build / "coverage.json").write_text(json.dumps([file._asdict() for file in files], indent=1))
    tool("llvm-cov", "show", "-format=html", "-show-branches=count", f"-output-dir={build / 'html'}", *objects, *ours)

    print(table(rooms_of(files)))
    print("The files with the most lines that no test runs:")
    print(table(least_covered([file for file in files if file.name.startswith(("nic/", "lib/"))], options.least)))
    print(f"Pages: {build / 'html' / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
