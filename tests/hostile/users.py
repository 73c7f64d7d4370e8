# SPDX-License-Identifier: Apache-2.0
"""Programs of several users in one network namespace, each on the NIC or not.

A test needs root, to start programs of other users.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, NamespacePair, NotPermitted  # noqa: E402, F401

BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60.0
ALICE, BOB, STRANGER = 60001, 60002, 60003
# The other user may not be able to read this folder.
STRANGER_PROGRAM = ["/usr/bin/python3", "-B", "-c", Path(__file__).with_name("stranger.py").read_text()]


@dataclass
class Program:
    """A program that was started, and the file of what it prints."""

    command: list[str]
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def __str__(self) -> str:
        return f"\n$ {' '.join(word[:100] for word in self.command)}\n{self.output}[status {self.process.poll()}]\n"

    def finish(self, limit_s: float = LIMIT_S) -> "Program":
        """Wait for the end; the program must succeed."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"not done within {limit_s} s{self}")
        assert self.process.returncode == 0, str(self)
        return self

    def end_input(self) -> "Program":
        """Close standard input, at which strangers end, and wait for the end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.finish()

    def socket_inodes(self) -> set[str]:
        inodes = set()
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(link)))
        return inodes

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_ns(self) -> int:
        """The processor time of all threads."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


@dataclass
class Users:
    """Starts programs of users in two namespaces, and kills those that still run at the end."""

    wire: NamespacePair
    folder: Path
    started: list[Program] = field(default_factory=list)

    def start(
        self, user: int, *command: object, side: int = 0, before: list[str] | None = None, **variables: object
    ) -> Program:
        """Start a program as `user`, with these environment variables.

        `before`: the words of a program that starts it, as root.
        """
        words = [str(word) for word in command]
        log = self.folder / f"{len(self.started)}.log"
        as_user = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        setting = [f"{name}={value}" for name, value in variables.items()]
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.wire.inside(
                    side, [*(before or []), *as_user, "setpriv", "--pdeathsig", "KILL", "env", *setting, *words]
                ),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.started.append(Program(words, process, log))
        return self.started[-1]

    def on_nic(self, user: int, *command: object, **options: Any) -> Program:
        return self.start(user, *command, LD_PRELOAD=NIC, **options)

    def names(self, side: int = 0) -> str:
        return Path(f"/proc/{self.wire.holder(side)}/net/unix").read_text()

    def listens(self, port: int, side: int = 0) -> bool:
        """Whether a process listens at this TCP port."""
        tables = [Path(f"/proc/{self.wire.holder(side)}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        return any(f":{port:04X} " in line and " 0A " in line for table in tables for line in table.splitlines())

    def end(self) -> None:
        for program in self.started:
            if program.process.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait()
            if program.process.stdin and not program.process.stdin.closed:
                program.process.stdin.close()


def two_hosts() -> Iterator[NamespacePair]:
    """For a fixture: two namespaces, joined by a wire."""
    if os.geteuid() != 0:
        pytest.skip("only root may start programs of other users")
    try:
        both = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield both
    both.close()


def users_in(wire: NamespacePair, folder: Path) -> Iterator[Users]:
    """For a fixture: starts programs, and ends them."""
    if not NIC.is_file():
        pytest.fail(f"there is no {NIC}: run `make build`, or name another build in VERBENA_BUILD", pytrace=False)
    made = Users(wire, folder)
    yield made
    made.end()


def wait_until(condition: Callable[[], bool], what: str, alive: Program, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if alive.process.poll() is not None:
            pytest.fail(f"the program ended before this happened: {what}{alive}")
        if time.monotonic() > deadline:
            pytest.fail(f"this did not happen within {limit_s} s: {what}{alive}")
        time.sleep(0.002)  # the pause between two checks
