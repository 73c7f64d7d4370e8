# SPDX-License-Identifier: Apache-2.0
"""Programs as processes: alone, and as a server with its client.

Owns: the processes that a Runner starts; end() kills those that still run.
Errors: run_pair fails the test when the server does not listen in time. A program that is not done
  in time is killed, and its output says so.
"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60

# perftest can exit with 0 after an error, so its output is searched as well. After a failed call it
# prints "Couldn't ..." or "Unable ...".
TROUBLE = re.compile(r"error|fail|couldn't|unable|invalid|abort|segmentation|assert", re.IGNORECASE)

Command = list[str]
Network = Callable[[Command], Command]  # puts a command into a network namespace


def here(command: Command) -> Command:
    return command


@dataclass
class Ran:
    """A program that has ended."""

    command: Command
    status: int
    output: str

    def __str__(self) -> str:
        return f"$ {' '.join(self.command)}\n{self.output}[status {self.status}]\n"


@dataclass
class PairRan:
    """A server and its client that have both ended."""

    server: Ran
    client: Ran

    def __str__(self) -> str:
        return f"--- server\n{self.server}--- client\n{self.client}"

    def check(self) -> "PairRan":
        """Fail the test unless both exited with 0 and printed nothing that reads like an error."""
        for ran in (self.server, self.client):
            assert ran.status == 0, f"\n{self}"
            assert not TROUBLE.search(ran.output), f"\n{self}"
        return self


@dataclass
class Runner:
    """Starts programs on the NIC, and kills those that still run at the end of the test.

    way     the words that put a program on the NIC
    folder  the working folder of the programs; None: the caller's own
    """

    logs: Path
    way: Command = field(default_factory=lambda: ["env", f"LD_PRELOAD={NIC}"])
    folder: Path | None = None
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Command, network: Network = here) -> tuple[subprocess.Popen[bytes], Path]:
        log = self.logs / f"{len(self.started)}.log"
        # Only the program itself is preloaded, not the commands that put it into its namespace. It
        # dies together with pytest, so an interrupted run leaves nothing behind.
        with_nic = network(["setpriv", "--pdeathsig", "KILL", *self.way, *command])
        with log.open("wb") as output:
            process = subprocess.Popen(
                with_nic,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.started.append(process)
        return process, log

    def finish(self, process: subprocess.Popen[bytes], log: Path, command: Command, deadline: float) -> Ran:
        late = ""
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = "[killed, because it was not done within its limit]\n"
            kill_group(process)
        return Ran(command, process.returncode, log.read_text(errors="replace") + late)

    def run(self, command: Command, network: Network = here) -> Ran:
        process, log = self.start(command, network)
        return self.finish(process, log, command, time.monotonic() + LIMIT_S)

    def end(self) -> None:
        for process in self.started:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(pid: int, port: int) -> bool:
    """Whether a process in the network namespace of `pid` listens on this TCP port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            local, state = line.split()[1], line.split()[3]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


def run_pair(
    runner: Runner, server: Command, client: Command, *, port: int, networks: tuple[Network, Network] = (here, here)
) -> PairRan:
    """Run server and client as two processes; the client starts when the server listens."""
    deadline = time.monotonic() + LIMIT_S
    server_process, server_log = runner.start(server, networks[0])
    while not listens(server_process.pid, port):
        try:
            server_process.wait(0.005)  # a pause between two checks; the server should not end
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
        ended = runner.finish(server_process, server_log, server, deadline)
        pytest.fail(f"the server did not listen on port {port}\n{ended}")
    client_process, client_log = runner.start(client, networks[1])
    client_ran = runner.finish(client_process, client_log, client, deadline)
    if client_ran.status != 0:
        # A server may wait for ever after its client has failed.
        deadline = min(deadline, time.monotonic() + 5)
    return PairRan(runner.finish(server_process, server_log, server, deadline), client_ran)
