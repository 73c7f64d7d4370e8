#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Change the code in one place at a time, and see whether a test fails: `make mutants`.

A mutant is the project with one changed line, made by universalmutator (PyPI). It is killed if a
unit test of its room, or a short run of its programs, fails, crashes or does not end; a mutant that
does not compile does not count. A mutant that survives is a fault that the tests would not find.
Those that change nothing that a test can see are listed in survivors.txt, each with the reason.

The mutants of a run are a sample: those whose hash is lowest. So it is the same in every run with
the same --seed, and changes little when the code does. Results are kept in build-mutants/results,
and a second run goes on where the first one stopped. A change of a room makes its results void;
with --quick only those of survivors that are not listed, for the time in which tests are added.

Exit status: 0 if at least 95 % of the mutants were killed, without those of survivors.txt; 1 if
fewer were; 2 if a test fails without any change.

  tests/mutants/run.py                              a sample of 200 of all rooms
  tests/mutants/run.py --room bench/judge --count 0 all mutants of one room
  tests/mutants/run.py --list                       the first of them, without running any
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build-mutants"
TREE = FOLDER / "tree"
ACCEPTED = Path(__file__).parent / "survivors.txt"
KILLED_MIN = 0.95
# Tests of channels wait for most of their time, so parts of a program run side by side.
SHARDS = 4
# The rooms whose code measures and transports, and their unit tests.
ROOMS = {
    "bench/table": ["bench_table_test", "bench_judge_test"],
    "bench/judge": ["bench_judge_test"],
    "bench/sweep": ["bench_sweep_test"],
    "bench/far_end": ["bench_far_end_test"],
    "bench/rcud": ["bench_rcud_test"],
    "bench/connect": ["bench_connect_test"],
    "bench/scale": ["bench_scale_test"],
    "bench/kv": ["bench_kv_test"],
    "bench/rpc": ["bench_rpc_test"],
    "lib/verbs": ["lib_verbs_test", "lib_channel_test"],
    "lib/channel": ["lib_channel_test"],
    "lib/channel/setup": ["lib_channel_setup_test", "lib_channel_test"],
}
# Short runs of the whole. They fail if a row could not be measured, or cannot be true.
EACH = "--reps 1 --quiet --json -"
BRIEFLY = f"--seconds 0.2 --warmup 0.1 {EACH}"
SCALE = [
    f"verbena bench scale --clients 4,10 --transport rdma,tcp --connect tls-psn,rdmacm {BRIEFLY}",
    f"verbena bench scale --clients 10 --qps 0,4 --stalled 0,2 --messages 5 {BRIEFLY}",
]
SCENARIOS = {
    "bench/rcud": [
        "verbena bench rcud --modes rc,ud --ops send,write,read --sizes 64,8K --windows 4 --iters 2000 --warmup 100"
        f" --verify --ud-oversize segment {EACH}",
        f"verbena bench rcud --qps 1,4 --senders 2 --iters 2000 --warmup 100 {EACH}",
    ],
    "bench/connect": [f"verbena bench connect --clients 1,4 --count 200 {EACH}"],
    "bench/scale": [*SCALE, "performance_test -c 10 -n 2 -t 1 --hold 0.4"],
    "bench/kv": [f"verbena bench kv --sizes 64,16K --window 1,4 --iters 300 {EACH}"],
    "bench/rpc": [f"verbena bench rpc --sizes 128,64K --concurrency 1,4 --duration 0.1 --warmup 0.05 {EACH}"],
    "lib/verbs": SCALE,
    "lib/channel": SCALE,
    "lib/channel/setup": SCALE,
}
# Lines that have no code whose change a test could see.
UNSEEN = re.compile(r"^\s*(//|#|\*|using |namespace |static_assert|template|class |struct |public:|private:)")


class Mutant(NamedTuple):
    """One changed line of a file; a new line that is empty is a statement that was removed."""

    file: str
    line: int  # from 1
    old: str
    new: str

    def key(self) -> str:
        return hashlib.sha256("\0".join((self.file, self.old.strip(), self.new.strip())).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old.strip()}  ->  {self.new.strip() or '(removed)'}"


def without_texts(line: str) -> str:
    """Return the line with empty string literals and without a comment at its end."""
    return re.sub(r"\s*//.*", "", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))


def is_seen(old: str, new: str) -> bool:
    """Return whether the change is one of code, and not of a text, a comment or a declaration."""
    if UNSEEN.match(old) or not old.strip() or old.strip() in ("{", "}", "};"):
        return False
    before, after = without_texts(old), without_texts(new)
    return "".join(before.split()) != "".join(after.split()) and not new.strip().startswith("/*")


def mutants_of(file: str, root: Path, mutate: Path, scratch: Path) -> list[Mutant]:
    """Return all mutants of a file that change one line of code."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    command = [str(mutate), str(root / file), "cpp", "--noCheck", "--mutantDir", str(scratch)]
    subprocess.run(command, check=True, capture_output=True, cwd=scratch, timeout=600)
    original = (root / file).read_text().splitlines()
    found = {}
    for path in sorted(scratch.iterdir()):
        changed = path.read_text().splitlines()
        if len(changed) != len(original):
            continue  # an inserted line, such as `continue;`, seldom compiles
        places = [place for place, pair in enumerate(zip(original, changed, strict=True)) if pair[0] != pair[1]]
        if len(places) != 1:
            continue
        (at,) = places
        mutant = Mutant(file, at + 1, original[at], changed[at])
        if is_seen(mutant.old, mutant.new):
            found.setdefault(mutant.key(), mutant)
    return list(found.values())


def kept_mutants_of(file: str, root: Path, mutate: Path, folder: Path) -> list[Mutant]:
    """Return mutants_of(file), from `folder` if the file has not changed since they were made."""
    digest = hashlib.sha256(file.encode() + (root / file).read_bytes()).hexdigest()[:24]
    kept = folder / f"{digest}.json"
    if not kept.exists():
        scratch = folder / f"{digest}.scratch"
        made = mutants_of(file, root, mutate, scratch)
        shutil.rmtree(scratch)
        part = kept.with_suffix(".part")
        part.write_text(json.dumps(made))
        part.replace(kept)
    return [Mutant(*each) for each in json.loads(kept.read_text())]


def shuffled(mutants: Iterable[Mutant], seed: str) -> list[Mutant]:
    """Return the mutants in an order that depends on their texts and the seed alone."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256((seed + mutant.key()).encode()).digest())


def read_accepted(path: Path) -> dict[tuple[str, str, str], str]:
    """Read survivors.txt: paragraphs of four lines (file, old line, new line, reason)."""
    accepted = {}
    for number, paragraph in enumerate(re.split(r"\n\s*\n", path.read_text().strip())):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        if len(lines) != 4 or not lines[3].strip():
            raise ValueError(f"{path.name}: paragraph {number + 1} needs file, old line, new line and reason")
        accepted[(lines[0].strip(), lines[1].strip(), lines[2].strip())] = lines[3].strip()
    return accepted


def key_of(mutant: Mutant) -> tuple[str, str, str]:
    """Return the key of a mutant in read_accepted()."""
    return mutant.file, mutant.old.strip(), mutant.new.strip()


def including(file: str, root: Path) -> str | None:
    """Return a source that a header can be compiled with: of its name, or one that includes it."""
    if file.endswith(".cc"):
        return file
    for source in (file.removesuffix(".h") + ".cc", file.removesuffix(".h") + "_test.cc"):
        if (root / source).exists():
            return source
    sources = sorted((root / file).parent.glob("*.cc"))
    return next((str(each.relative_to(root)) for each in sources if f'"{file}"' in each.read_text()), None)


def files_of(room: str, root: Path) -> list[str]:
    """Return the sources of a room, without tests and fixtures."""
    paths = sorted((root / room).glob("*.cc")) + sorted((root / room).glob("*.h"))
    others = ("_test", "fixture", "scripted", "running", "environment")
    return [str(path.relative_to(root)) for path in paths if not any(word in path.stem for word in others)]


def room_of(file: str) -> str:
    return str(Path(file).parent)


def copy_if_changed(source: Path, target: Path) -> None:
    """Copy a file unless it is there already, so that it is not compiled again."""
    if not source.is_file() or (target.exists() and source.read_bytes() == target.read_bytes()):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def files_below(folder: Path) -> set[Path]:
    return {(Path(each) / name).relative_to(folder) for each, _, names in os.walk(folder) for name in names}


def put_back(kept: Path, build: Path) -> None:
    """Give a build folder the files of a copy, with their times: nothing is compiled again."""
    originals = files_below(kept)
    for name in files_below(build) - originals:
        (build / name).unlink()
    for name in originals:
        if not os.path.lexists(build / name) or (build / name).lstat().st_mtime_ns != (kept / name).lstat().st_mtime_ns:
            # A program of a mutant that was killed may still run, and cannot be written then.
            part = build / f"{name}.part"
            shutil.copy2(kept / name, part, follow_symlinks=False)
            part.replace(build / name)


def start(command: list[str], limit_s: float, **variables: str) -> subprocess.Popen[bytes]:
    """Start a command in the tree. A mutant may ask for all memory, or not end."""
    return subprocess.Popen(
        ["timeout", "-k", "5", str(limit_s), "prlimit", f"--as={16 << 30}", *command],
        cwd=TREE,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def all_end_well(commands: list[subprocess.Popen[bytes]]) -> bool:
    """Wait for commands of start(). The first that fails ends the others and their processes."""
    running = list(commands)
    try:
        while running:
            for each in [each for each in running if each.poll() is not None]:
                if each.returncode != 0:
                    return False
                running.remove(each)
            time.sleep(0.02)
        return True
    finally:
        for each in running:
            each.terminate()  # and `timeout` the processes that it has started
        for each in running:
            each.wait()


class Tree:
    """A copy of the project with its own build folder, in which mutants are built and tested."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self._build = TREE / "build"
        self._kept = FOLDER / "built"
        self._has_mutant = FOLDER / "has-mutant"  # exists while the build folder may be a mutant's
        self._limits: dict[str, float] = {}
        self._commands: dict[str, str] = {}  # by source
        self._rooms = list(rooms)

    def prepare(self) -> str | None:
        """Copy, build, and run each test program once; return a sentence if one fails."""
        TREE.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            copy_if_changed(ROOT / name, TREE / name)
        if self._has_mutant.exists():
            put_back(self._kept, self._build)
            self._has_mutant.unlink()
        # Again in each run, because there may be new files.
        options = ["-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG"]
        command = ["cmake", "--log-level=WARNING", "--preset", "release", *options]
        subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.DEVNULL)
        for each in json.loads((self._build / "compile_commands.json").read_text()):
            self._commands[os.path.relpath(each["file"], TREE)] = f"cd {each['directory']} && {each['command']}"
        tests = sorted({test for room in self._rooms for test in tests_of(room)})
        targets = targets_of(tests)
        print(f"mutants: building {', '.join(targets)}", flush=True)
        if not self._make(targets, 3600):
            return "the project does not build"
        for test in tests:
            began = time.monotonic()
            if not self._passes(test, 600):
                return f"'{test}' fails without any change"
            self._limits[test] = 10 + 5 * (time.monotonic() - began)
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._build, self._kept, symlinks=True)
        return None

    def _make(self, targets: list[str], limit_s: float) -> bool:
        return self._ends_well(["ninja", "-C", str(self._build), *targets], limit_s)

    def _passes(self, test: str, limit_s: float) -> bool:
        program, *words = test.split()
        if words:
            return self._ends_well([str(self._build / program), *words], limit_s)
        command = [str(self._build / "bench" / program), "--gtest_brief=1", "--gtest_fail_fast"]
        return all_end_well(
            [start(command, limit_s, GTEST_TOTAL_SHARDS=str(SHARDS), GTEST_SHARD_INDEX=str(i)) for i in range(SHARDS)]
        )

    def _ends_well(self, command: list[str], limit_s: float) -> bool:
        return all_end_well([start(command, limit_s)])

    def _compiles(self, file: str) -> bool:
        """Return whether a file, or one that includes this header, compiles. Nothing is built."""
        command = self._commands.get(including(file, TREE) or "")
        return command is None or self._ends_well(["sh", "-c", f"{command} -fsyntax-only"], 300)

    def judge(self, mutant: Mutant) -> str:
        """Return `killed`, `survived` or `not built`."""
        path = TREE / mutant.file
        original, times = path.read_text(), path.stat()
        lines = original.split("\n")
        lines[mutant.line - 1] = mutant.new
        self._has_mutant.touch()
        path.write_text("\n".join(lines))
        try:
            if not self._compiles(mutant.file):
                return "not built"
            for test in tests_of(room_of(mutant.file)):
                # The programs of the short runs take long to build, and most mutants need none.
                if not self._make(targets_of([test]), 900):
                    return "not built"
                if not self._passes(test, self._limits[test]):
                    return "killed"
            return "survived"
        finally:
            path.write_text(original)
            # With their times, or all files that include this one would be compiled again.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            put_back(self._kept, self._build)
            self._has_mutant.unlink()


class Results:
    """The result of each mutant, on the disk after each one."""

    def __init__(self, path: Path, believed: Callable[[Mutant, str], bool] = lambda _mutant, _result: False) -> None:
        self._path = path
        self._believed = believed
        self._of = json.loads(path.read_text()) if path.exists() else {}

    def get(self, mutant: Mutant, state: str) -> str | None:
        kept = self._of.get(mutant.key())
        if not kept:
            return None
        still_true = kept["state"] == state or self._believed(mutant, kept["result"])
        return kept["result"] if still_true else None

    def put(self, mutant: Mutant, state: str, result: str) -> None:
        self._of[mutant.key()] = {"result": result, "state": state, "mutant": str(mutant)}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._of, indent=1, sort_keys=True))
        part.replace(self._path)


def tests_of(room: str) -> list[str]:
    """Return the test programs of a room, and its scenarios, which are programs with arguments."""
    return [*ROOMS.get(room, []), *SCENARIOS.get(room, [])]


def targets_of(tests: list[str]) -> list[str]:
    """Return what must be built for these tests."""
    with_nic = any(" " in test for test in tests)
    return sorted({test.split()[0] for test in tests} | ({"verbena-nic"} if with_nic else set()))


def state_of(room: str, root: Path) -> str:
    """Return a digest of the room's sources and tests: a change of them makes old results void."""
    digest = hashlib.sha256(repr(tests_of(room)).encode())
    for path in sorted((root / room).iterdir()):
        if path.suffix in (".cc", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def summary(judged: list[tuple[Mutant, str]], accepted: dict[tuple[str, str, str], str]) -> tuple[str, bool]:
    """Return the report and whether enough mutants were killed."""
    rows, survivors = [], []
    total = killed_all = excused = 0
    for room in ROOMS:
        results = [(mutant, result) for mutant, result in judged if room_of(mutant.file) == room]
        killed = sum(result == "killed" for _, result in results)
        alive = [mutant for mutant, result in results if result == "survived"]
        known = [each for each in alive if key_of(each) in accepted]
        survivors += [each for each in alive if each not in known]
        count = killed + len(alive) - len(known)
        total, killed_all, excused = total + count, killed_all + killed, excused + len(known)
        if count:
            rows.append(f"  {room:<20} {killed:4} of {count:4} killed  {100 * killed / count:5.1f} %")
    share = killed_all / total if total else 1.0
    text = "\n".join(rows)
    text += f"\nmutants: {killed_all} of {total} killed, {100 * share:.1f} %; {excused} more are in {ACCEPTED.name}"
    for each in survivors:
        text += f"\n  survived: {each}"
    return text, share >= KILLED_MIN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=ROOMS, help="only this room; may be repeated")
    parser.add_argument("--file", help="only mutants of files whose path has this in it")
    parser.add_argument("--count", type=int, default=200, help="mutants that are tested; 0: all (default 200)")
    parser.add_argument("--seed", default="1", help="another seed is another sample")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="believe the results of a room that has changed, except that a mutant survived which is not listed",
    )
    parser.add_argument("--list", action="store_true", help="print the sample and end")
    options = parser.parse_args()
    rooms = options.room or list(ROOMS)
    accepted = read_accepted(ACCEPTED)

    venv = FOLDER / "venv"
    mutate = venv / "bin" / "mutate"
    if not mutate.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        needs = Path(__file__).parent / "requirements.txt"
        subprocess.run([str(venv / "bin" / "pip"), "install", "-q", "-r", str(needs)], check=True)
    files = [file for room in rooms for file in files_of(room, ROOT) if not options.file or options.file in file]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda file: kept_mutants_of(file, ROOT, mutate, FOLDER / "mutants"), files)
        every = [mutant for mutants in made for mutant in mutants]
    ordered = shuffled(every, options.seed)
    count = options.count or len(every)
    print(f"mutants: {len(every)} of {len(files)} files; {count} that compile are tested")
    if options.list:
        print("\n".join(str(mutant) for mutant in ordered[: 2 * count]))
        return 0

    results = Results(
        FOLDER / "results.json",
        lambda mutant, result: options.quick and (result != "survived" or key_of(mutant) in accepted),
    )
    tree = Tree(rooms)
    states = {room: state_of(room, ROOT) for room in rooms}
    judged: list[tuple[Mutant, str]] = []
    began, run_before = 0.0, 0
    try:
        for mutant in ordered:
            if len(judged) == count:
                break
            state = states[room_of(mutant.file)]
            result = results.get(mutant, state)
            if result is None:
                if not began:
                    if trouble := tree.prepare():
                        print(f"mutants: {trouble}", file=sys.stderr)
                        return 2
                    began, run_before = time.monotonic(), len(judged)
                result = tree.judge(mutant)
                results.put(mutant, state, result)
                if result != "not built":
                    each_s = (time.monotonic() - began) / (len(judged) + 1 - run_before)
                    left_min = each_s * (count - len(judged) - 1) / 60
                    print(f"[{len(judged) + 1}/{count}, {left_min:.0f} min left] {result}: {mutant}", flush=True)
            if result != "not built":
                judged.append((mutant, result))
    except KeyboardInterrupt:
        print("mutants: interrupted; the results so far are kept", file=sys.stderr)
    text, enough = summary(judged, accepted)
    print(text)
    if not enough:
        print(
            f"mutants: fewer than {KILLED_MIN:.0%}: write a test that fails for each, or say in {ACCEPTED} why none can"
        )
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
