# SPDX-License-Identifier: Apache-2.0
"""Runs one entry of the table at one place, and judges the result.

Owns: the processes of a check; none of them is left when run_check returns.
Errors: a check that fails is a Result with its reason, not an exception.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from entry import CLIENT_KILLED, FAILS, MISSING, PLAIN, RUNS, Entry, Kill, Known, Result
from outputs import stripped
from pairs import TROUBLE, Command, Runner, free_port, listens
from places import CLIENT, SERVER, Place, verbena
from processes import adopt_orphans, below, cpu_seconds, descendants, end_all_but, name_of
from wheels import PYTHON, Wheels

HELPERS = Path(__file__).resolve().parent
STEP_S = 0.005  # between two looks at a condition


class Failure(Exception):
    """The check has failed; the text says in what."""


class Missing(Exception):
    """The program, or something that it needs, is not installed."""


@dataclass
class Side:
    """A started program."""

    command: Command
    process: Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def __str__(self) -> str:
        status = self.process.poll()
        ending = "still running" if status is None else f"status {status}"
        return f"$ {shlex.join(self.command)}\n{self.output()}[{ending}]\n"


@dataclass
class Stage:
    """The processes of one check, in an empty folder of their own."""

    entry: Entry
    place: Place
    wheels: Wheels
    folder: Path
    rounds: int
    deadline: float
    sides: list[Side] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.others = below()
        adopt_orphans(True)
        self.runner = Runner(self.folder, way=[], folder=self.folder)
        self.port = self.entry.port or free_port()

    def command(self, text: str, side: int) -> Command:
        values = {
            "run": f"{verbena()} run --",
            "address": self.place.address(SERVER),
            "own": self.place.address(side),
            "device": self.place.device(side),
            "port": self.port,
            "n": self.rounds,
            "folder": self.folder,
            "helpers": HELPERS,
            "built": self.wheels.built,
            "python": self.wheels.python,
            "system_python": PYTHON,
            "wheels": self.wheels.packages,
            "ucx": self.wheels.newest_ucx,
        }
        if "{hosts" in text:
            agent = self.place.write_mpi_agent(self.folder)
            values |= {f"hosts{ranks}": self.place.mpi_hosts(agent, ranks) for ranks in (2, 4)}
        words = shlex.split(text.format_map(values))
        plain = next(index for index, word in enumerate(words) if not re.match(r"\w+=", word))
        return ["env", *words] if plain else words

    def start(self, text: str, side: int) -> Side:
        command = self.command(text, side)
        program = next(word for word in command[command.index("--") + 1 if "--" in command else 0 :])
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
        process, log = self.runner.start(command, lambda words: self.place.inside(side, words))
        started = Side(command, process, log)
        self.sides.append(started)
        return started

    def until(self, condition: Callable[[], bool], what: str, deadline: float) -> None:
        while not condition():
            if time.monotonic() > deadline:
                raise Failure(f"{what} within the limit")
            with contextlib.suppress(TimeoutExpired):
                self.sides[0].process.wait(STEP_S)  # a pause between two looks

    def start_server(self) -> Side:
        server = self.start(self.entry.server, SERVER)

        def is_ready() -> bool:
            if server.process.poll() is not None:
                raise Failure("the server ended before its client came")
            if self.entry.ready == "tcp":
                return listens(server.process.pid, self.port)
            if self.entry.ready == "cm":
                return has_cm_port(server.process.pid, self.port)
            found = re.search(self.entry.ready, server.output())
            if found and found.lastindex:
                self.port = int(found[1])
            return found is not None

        self.until(is_ready, "the server was not ready", self.deadline)
        return server

    def wait(self, side: Side, what: str, deadline: float) -> None:
        self.until(lambda: side.process.poll() is not None, f"{what} did not end", deadline)

    def end(self) -> None:
        for side in self.sides:
            side.process.kill()
            side.process.wait()
        # Also those in a session of their own, and those that outlived the command.
        end_all_but(self.others)
        adopt_orphans(False)

    def __str__(self) -> str:
        return "".join(str(side) for side in self.sides)


def has_cm_port(pid: int, port: int) -> bool:
    """Whether a process in the network namespace of `pid` has this rdma_cm port (decision 13)."""
    names = re.findall(r"@verbena/\d+/cm/([0-9a-f]+)$", Path(f"/proc/{pid}/net/unix").read_text(), re.MULTILINE)
    return any(int(service, 16) & 0xFFFF == port for service in names)


def check_output(entry: Entry, side: Side, patterns: tuple[str, ...], who: str, device: str) -> None:
    text = stripped(side.output())
    for pattern in (each.replace("{device}", device) for each in patterns):
        if not re.search(pattern, text, re.MULTILINE):
            raise Failure(f"the {who} did not print {pattern!r}")
    if entry.may_say:
        text = re.sub(entry.may_say, "", text)
    if trouble := TROUBLE.search(text):
        raise Failure(f"the {who} printed {trouble.group()!r}")


def run_plain(stage: Stage) -> None:
    """Run both sides to their end."""
    entry = stage.entry
    server = stage.start_server() if entry.server else None
    client = stage.start(entry.client, CLIENT)
    if entry.endless_s:
        run_on(stage)
        return
    stage.wait(client, "the client", stage.deadline)
    if client.process.returncode != 0:
        raise Failure(f"the client ended with status {client.process.returncode}")
    check_output(entry, client, entry.says, "client", stage.place.device(CLIENT))
    if server is not None:
        if entry.server_ends:
            stage.wait(server, "the server", stage.deadline)
            if server.process.returncode != 0:
                raise Failure(f"the server ended with status {server.process.returncode}")
        elif server.process.poll() is not None:
            raise Failure("the server ended by itself")
        check_output(entry, server, entry.server_says, "server", stage.place.device(SERVER))


def run_on(stage: Stage) -> None:
    """Let both sides run; neither may end by itself."""
    deadline = time.monotonic() + stage.entry.endless_s
    while time.monotonic() < deadline:
        for side in stage.sides:
            with contextlib.suppress(TimeoutExpired):
                side.process.wait(STEP_S)
                raise Failure(f"a side ended by itself with status {side.process.returncode}")


def run_killed(stage: Stage, check: str, kill: Kill) -> None:
    """Kill one side in the middle, and see what the other does."""
    server = stage.start_server() if stage.entry.server else None
    client = stage.start(stage.entry.client, CLIENT)
    killed = client if check == CLIENT_KILLED or server is None else server
    survivor = server if killed is client and server is not None else client
    victim = 0

    def is_in_the_middle() -> bool:
        nonlocal victim
        for side in stage.sides:
            if side.process.poll() is not None:
                raise Failure("a side ended before it was killed")
        below = [pid for pid in descendants(killed.process.pid) if not kill.victim or name_of(pid) == kill.victim]
        victim = max(below, key=cpu_seconds, default=0)
        return victim != 0 and cpu_seconds(victim) >= kill.cpu_s

    stage.until(is_in_the_middle, "the victim was not in the middle of its work", stage.deadline)
    os.kill(victim, signal.SIGKILL)
    if kill.survivor == "ends":
        stage.wait(survivor, "the survivor", time.monotonic() + kill.within_s)
        return
    with contextlib.suppress(TimeoutExpired):
        survivor.process.wait(kill.within_s)
        if kill.survivor == "goes on":
            raise Failure(f"the survivor ended with status {survivor.process.returncode}, and should go on")
    survivor.process.send_signal(kill.last_signal)
    stage.wait(survivor, f"after {kill.last_signal.name} the survivor", time.monotonic() + kill.within_s)


@dataclass
class Checker:
    """Runs checks and compares them with the table of known failures.

    grace_s  the time in which the names of ended processes must be gone
    """

    wheels: Wheels
    known: list[Known]
    grace_s: float = 5

    def known_failure(self, entry: Entry, place: Place, check: str) -> Known | None:
        return next((known for known in self.known if known.concerns(entry.name, place.name, check)), None)

    def _attempt(self, entry: Entry, place: Place, check: str) -> None:
        with tempfile.TemporaryDirectory(prefix="verbena-ecosystem-") as folder:
            rounds = entry.rounds[0 if check == PLAIN else 1]
            stage = Stage(entry, place, self.wheels, Path(folder), rounds, time.monotonic() + entry.limit_s)
            try:
                if check == PLAIN:
                    run_plain(stage)
                else:
                    run_killed(stage, check, dict(entry.kill)[check])
            except Failure as failure:
                raise Failure(f"{failure}\n{stage}") from None
            finally:
                stage.end()

    def _run(self, entry: Entry, place: Place, check: str) -> None:
        before = place.left_behind()
        self._attempt(entry, place, check)
        if check != PLAIN:
            try:
                self._attempt(entry, place, PLAIN)
            except Failure as failure:
                raise Failure(f"in the run after the kill, {failure}") from None
        # The kernel frees an abstract name with the last descriptor, a moment after the exit.
        deadline = time.monotonic() + self.grace_s
        while left := place.left_behind() - before:
            if time.monotonic() > deadline:
                raise Failure(f"left behind: {' '.join(sorted(left))}")

    def run(self, entry: Entry, place: Place, check: str) -> Result:
        began = time.monotonic()
        verdict, detail = RUNS, ""
        try:
            self.wheels.need(entry)
            self._run(entry, place, check)
        except Missing as missing:
            verdict, detail = MISSING, str(missing)
        except Failure as failure:
            verdict, detail = FAILS, str(failure)
        known = self.known_failure(entry, place, check)
        if verdict == RUNS:
            agrees = known is None or known.may_run
        else:
            agrees = verdict == FAILS and known is not None and re.search(known.says, detail) is not None
        why = known.why if known else ""
        seconds = round(time.monotonic() - began, 2)
        return Result(entry.name, entry.program, place.name, check, verdict, detail, why, agrees, seconds)
