"""The project's own programs as processes: started with their output in files, watched, and ended with their group.

Every wait here is for a condition, with a deadline.
"""

import os
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

sys.path.append(str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, NamespacePair, NotPermitted  # noqa: E402, F401


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
    """One that runs."""

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
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"not done within {limit_s} s\n{self._ran()}")
        return self._ran()

    def end(self, by: signal.Signals = signal.SIGTERM) -> Ran:
        """What it says when it is asked to end."""
        self.process.send_signal(by)
        return self.finish()

    def kill(self) -> None:
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def _ran(self) -> Ran:
        return Ran(self.command, self.process.returncode, self.out, self.err, time.monotonic() - self.started)


class Programs:
    """Starts programs of the build, and ends whatever is left of them with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Program] = []

    def start(self, *command: object, within: Callable[[list[str]], list[str]] = list, **options: object) -> Program:
        """A word without a slash first is a program of the build. `within` puts the command into a network namespace."""
        words = [str(word) for word in command]
        if "/" not in words[0] and (BUILD / words[0]).exists():
            words[0] = str(BUILD / words[0])
        log = self.folder / f"{len(self._started)}"
        # A build folder may lie outside of the sources, where `verbena report` does not look by itself.
        given = {"stdin": subprocess.DEVNULL, "env": os.environ | {"VERBENA_REPORT": str(ROOT / "report")}} | options
        with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
            full = within(["setpriv", "--pdeathsig", "KILL", *words])
            files = {"stdout": out, "stderr": err} | given
            process = subprocess.Popen(full, cwd=self.folder, process_group=0, **files)  # type: ignore[call-overload]
        self._started.append(Program(words, process, log))
        return self._started[-1]

    def run(self, *command: object, limit_s: float = LIMIT_S, **options: object) -> Ran:
        return self.start(*command, **options).finish(limit_s)  # type: ignore[arg-type]

    def end_all(self) -> None:
        for program in self._started:
            program.kill()


def wait_until(condition: Callable[[], T], what: str, *, alive: Program | None = None, limit_s: float = LIMIT_S) -> T:
    """The first value of the condition that counts as true."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        if alive is not None and not alive.running:
            pytest.fail(f"ended before {what}{alive.finish()}")
        if time.monotonic() > deadline:
            pytest.fail(f"not within {limit_s} s: {what}" + (f"\n{alive.out}{alive.err}" if alive else ""))
        time.sleep(0.002)  # only the step of this look
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
    """SIGSTOP, and every thread of the process stands still when this returns."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), f"process {pid} stands still")
