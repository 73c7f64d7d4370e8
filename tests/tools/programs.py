# SPDX-License-Identifier: Apache-2.0
"""Starts the project's own programs as processes, keeps their output in files, and ends them.

Every wait is for a condition, with a deadline.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
PUBLISHED = ROOT / "bench" / "published" / "rc_vs_ud.csv"
LIMIT_S = 30.0
COUNTERS_S = 3.0  # only `make coverage` waits

sys.path.append(str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, NamespacePair, NotPermitted  # noqa: E402, F401


def installed_programs() -> list[str]:
    """Return the names of the programs that `cmake --install` installs from the build."""
    scripts = "".join(path.read_text() for path in sorted(BUILD.glob("**/cmake_install.cmake")))
    return [Path(path).name for path in re.findall(r'TYPE EXECUTABLE FILES "([^"]+)"', scripts)]


@dataclass
class Ran:
    """A program that has ended."""

    command: list[str]
    status: int
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        return f"\n$ {' '.join(self.command)}\n{self.out}{self.err}[status {self.status} after {self.seconds:.1f} s]\n"


@dataclass
class Program:
    """A program that was started."""

    command: list[str]
    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self.log.with_suffix(".out").read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.log.with_suffix(".err").read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def finish(self, limit_s: float = LIMIT_S) -> Ran:
        """Wait for the end of the program; fail the test if it takes longer than the limit."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"not done within {limit_s} s\n{self._ran()}")
        return self._ran()

    def end(self, by: signal.Signals = signal.SIGTERM) -> Ran:
        """Send a signal, and wait for the end of the program."""
        self.process.send_signal(by)
        return self.finish()

    def kill(self) -> None:
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def _ran(self) -> Ran:
        return Ran(self.command, self.process.returncode, self.out, self.err, time.monotonic() - self.started)


class Programs:
    """Starts programs of the build, and kills those that still run at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Program] = []
        self._numbers = itertools.count()  # next() is atomic: several threads may start programs

    def start(self, *command: object, within: Callable[[list[str]], list[str]] = list, **options: object) -> Program:
        """Start a command in the test's folder.

        A first word without a slash names a program of the build. `within` puts the command into
        a network namespace. `options` are those of subprocess.Popen.
        """
        words = [str(word) for word in command]
        if "/" not in words[0] and (BUILD / words[0]).exists():
            words[0] = str(BUILD / words[0])
        log = self.folder / f"{next(self._numbers)}"
        # A build folder may lie outside of the sources; then `verbena report` does not find its
        # scripts.
        given = {"stdin": subprocess.DEVNULL, "env": os.environ | {"VERBENA_REPORT": str(ROOT / "report")}} | options
        with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
            full = within(["setpriv", "--pdeathsig", "KILL", *words])
            files = {"stdout": out, "stderr": err} | given
            process = subprocess.Popen(  # type: ignore[call-overload]
                full, cwd=self.folder, process_group=0, **files
            )
        program = Program(words, process, log)
        self._started.append(program)
        return program

    def run(self, *command: object, limit_s: float = LIMIT_S, **options: object) -> Ran:
        return self.start(*command, **options).finish(limit_s)  # type: ignore[arg-type]

    def end_all(self) -> None:
        if "LLVM_PROFILE_FILE" in os.environ:
            self._ask_to_end()
        for program in self._started:
            program.kill()

    def _ask_to_end(self) -> None:
        """Let programs with coverage counters exit: a killed one does not write them."""
        deadline = time.monotonic() + COUNTERS_S
        for program in self._started:
            if program.running:
                os.killpg(program.pid, signal.SIGTERM)
                os.killpg(program.pid, signal.SIGCONT)
        while any(program.running for program in self._started) and time.monotonic() < deadline:
            time.sleep(0.002)


def wait_until(condition: Callable[[], T], what: str, *, alive: Program | None = None, limit_s: float = LIMIT_S) -> T:
    """Wait until the condition is true, and return its value.

    `what` says what is waited for, in the message of a failure. The wait also ends when the
    program `alive` ends.
    """
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        if alive is not None and not alive.running:
            pytest.fail(f"the program ended before this happened: {what}{alive.finish()}")
        if time.monotonic() > deadline:
            pytest.fail(
                f"this did not happen within {limit_s} s: {what}" + (f"\n{alive.out}{alive.err}" if alive else "")
            )
        time.sleep(0.002)  # the pause between two checks
    return value


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_stopped(pid: int) -> bool:
    return all(
        stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat")
    )


def stop(pid: int) -> None:
    """Send SIGSTOP, and return when every thread of the process is stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), f"process {pid} stands still")
