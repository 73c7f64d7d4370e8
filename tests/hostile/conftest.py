# SPDX-License-Identifier: Apache-2.0
"""Programs on the NIC beside hostile users of the same host and of the peer's host.

An attack runs as the user `nobody`, without any privilege. The programs that are attacked verify
each byte that they receive.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from namespaces import NamespacePair, NotPermitted  # noqa: E402
from users import Users, two_hosts, users_in  # noqa: E402

NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"
# The other user may not be able to read this folder.
FORGER = [sys.executable, "-B", "-c", Path(__file__).with_name("forger.py").read_text()]
NOBODY = "65534"
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
LIMIT_S = 60.0
COUNTERS_S = 3.0  # only `make coverage` waits

Network = Callable[[list[str]], list[str]]


class Program:
    """A process that answers each line of its input by one line."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, process_group=0
            )
        self.pid = self._process.pid
        self._rest = b""

    def line(self, limit_s: float = LIMIT_S) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            heard = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not heard:
                state = "has ended" if ready else f"printed no line in {limit_s} s"
                raise AssertionError(f"{self._process.args} {state}\n{self._log.read_text()}")
            self._rest += heard
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()

    def send_command(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """The text behind "ok" in the answer to the oldest command that has none yet."""
        verdict, _, rest = self.line().partition(" ")
        assert verdict == "ok", f"{self._process.args}: {verdict} {rest}"
        return rest

    def ask(self, command: str) -> str:
        self.send_command(command)
        return self.answer()

    def number(self, command: str) -> int:
        return int(self.ask(command))

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self._process.wait(limit_s)

    def errors(self) -> str:
        return self._log.read_text()

    def end(self) -> None:
        if "LLVM_PROFILE_FILE" in os.environ and self._process.stdin is not None:
            # A killed process does not write its coverage counters; this one exits without input.
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(COUNTERS_S)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Programs:
    """Starts programs, and kills those that still run at the end of the test."""

    def __init__(self, echo: Path, logs: Path) -> None:
        self._echo, self._logs = echo, logs
        self._started: list[Program] = []

    def start(self, command: list[str], network: Network) -> Program:
        program = Program(network(command), self._logs / f"{len(self._started)}.log")
        self._started.append(program)
        return program

    def echo(self, network: Network, *words: str, **environment: str) -> Program:
        """Start echo.cc on the NIC, and wait until it is ready."""
        variables = {"LD_PRELOAD": str(NIC), "VERBENA_DEVICES": "+vb_lo", **environment}
        settings = [f"{name}={value}" for name, value in variables.items()]
        program = self.start(["env", *settings, str(self._echo), *words], network)
        assert program.line() == "ready"
        return program

    def end(self) -> None:
        for program in self._started:
            program.end()


def side(hosts: NamespacePair, number: int) -> Network:
    return lambda command: hosts.inside(number, command)


def compile_program(source: str, program: Path, *libraries: str) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(["g++", *flags, Path(__file__).with_name(source), "-o", program, *libraries], check=True)
    return program


@pytest.fixture(scope="session")
def echo_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("echo.cc", tmp_path_factory.mktemp("hostile") / "echo", "-lrdmacm", "-libverbs")


@pytest.fixture
def programs(echo_program: Path, tmp_path: Path) -> Iterator[Programs]:
    made = Programs(echo_program, tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def hosts() -> Iterator[NamespacePair]:
    """Two network namespaces, in which this test may start programs of another user."""
    if os.geteuid() != 0:
        pytest.skip("a second user is needed: this needs root")
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


@pytest.fixture(scope="module")
def wire() -> Iterator[NamespacePair]:
    yield from two_hosts()


@pytest.fixture
def users(wire: NamespacePair, tmp_path: Path) -> Iterator[Users]:
    yield from users_in(wire, tmp_path)
