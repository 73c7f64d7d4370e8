# SPDX-License-Identifier: Apache-2.0
"""Processes with a time limit, which end together with their descendants.

A child leads a process group of its own, and its whole group is killed when it has ended or its
time is over. It also dies with this program, whatever ends that.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cells import NoResult

LIMIT_S = 30  # seconds for one run, and for the start of a server
COMPLAINT_MAX = 300  # characters


class Child:
    """One process. Use it in a `with` statement, which kills its group at the end."""

    def __init__(self, command: list[str]) -> None:
        self.name = Path(program_of(command)).name
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, process_group=0
        )
        self._end = os.pidfd_open(self._process.pid)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for file in (self._out, self._err):
            file.close()
        os.close(self._end)

    def ended(self, seconds: float) -> bool:
        """Wait this long at most, and return whether the process has ended."""
        return bool(select.select([self._end], [], [], max(seconds, 0))[0])

    def kill(self) -> None:
        # The leader is not reaped yet, so the number of the group is still its own.
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def result(self, seconds: float) -> str:
        """Wait for the end and return what the process printed; NoResult if it failed."""
        if not self.ended(seconds):
            raise NoResult(f"{self.name} did not finish within {seconds:.0f} s{self.complaint()}")
        status = os.waitid(os.P_PIDFD, self._end, os.WEXITED | os.WNOWAIT)
        if status is None or status.si_code != os.CLD_EXITED or status.si_status != 0:
            how = f"exit code {status.si_status}" if status and status.si_code == os.CLD_EXITED else "a signal"
            raise NoResult(f"{self.name} failed with {how}{self.complaint()}")
        return read(self._out)

    def complaint(self) -> str:
        """Return the last thing that the process said, for an error message."""
        said = " ".join((read(self._err).strip() or read(self._out)).split())
        return (": " + (said if len(said) <= COMPLAINT_MAX else "..." + said[-COMPLAINT_MAX:])) if said else ""


def read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


WRAPPERS = ("nsenter", "setpriv", "taskset", "env", "timeout", "prlimit", "chrt", "unshare", "sh")


def program_of(command: list[str]) -> str:
    """Return the measuring program in a command that begins with wrappers such as taskset."""
    words = [word for word in command if word.startswith("/") and not word.startswith("/proc")]
    return next((word for word in words if Path(word).name not in WRAPPERS), command[0])


def run(command: list[str], seconds: float = LIMIT_S) -> str:
    """Run one command to its end and return what it printed."""
    with Child(command) as child:
        return child.result(seconds)


def run_pair(
    server: list[str], client: list[str], ready: Callable[[], bool], seconds: float = LIMIT_S
) -> tuple[str, str]:
    """Run a server, and its client as soon as the server is ready; return what both printed.

    If both fail, the reason has the words of both: the client's may only say that the server left.
    """
    with Child(server) as serving:
        deadline = time.monotonic() + seconds
        while not ready():
            if serving.ended(0.005) or time.monotonic() > deadline:
                raise NoResult(f"{serving.name} did not begin to listen{serving.complaint()}")
        with Child(client) as asking:
            try:
                printed = asking.result(seconds)
            except NoResult as failure:
                if serving.ended(0.1):
                    raise NoResult(f"{failure}; server{serving.complaint()}") from failure
                raise
        return serving.result(seconds), printed


def listens(port: int, protocol: str = "tcp", pid: int | str = "self") -> bool:
    """Return whether a process has a TCP port that listens, or a UDP port, in the network of `pid`.

    Reads the kernel's tables: a server would take a trial connection for its client.
    """
    state = "0A" if protocol == "tcp" else "07"  # LISTEN, or a socket without a peer
    for table in (protocol, protocol + "6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(fields[1].endswith(f":{port:04X}") and fields[3] == state for fields in map(str.split, lines)):
            return True
    return False


@contextmanager
def stop_on_terminate() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: raise KeyboardInterrupt, so that children are killed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
