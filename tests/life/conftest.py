# SPDX-License-Identifier: Apache-2.0
"""Tests about processes that die, stop, fork, sleep and are many.

Each process is a `node` (node/) on the NIC. A test sends it commands over a pipe and reads its
answers. Every wait is for an answer or for a condition, with a deadline. At the end of a test its
processes get the end of their input and exit; one that does not is killed.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "clients"))
from namespaces import INTERFACES, NamespacePair, NotPermitted  # noqa: E402

BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
DEVICE = "vb_lo"
LIMIT_S = 30.0
EXIT_S = 2.0


class Refused(Exception):
    """A command of a node failed; the message is the name of its errno."""


@dataclass
class Completions:
    """The number of completions by status, in the order in which each status was first seen."""

    microseconds: int
    counts: dict[str, int]

    def __getitem__(self, status: str) -> int:
        return self.counts.get(status, 0)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Node:
    """A node process, or a forked child of one, and the pipe to it."""

    def __init__(self, pid: int, to: int, back: int, name: str, fork_end: int = -1) -> None:
        self.pid, self._to, self._back, self.name = pid, to, back, name
        self.fork_end = fork_end  # the node's descriptor for the commands of its forked child
        self._rest = b""

    def send_command(self, *words: object) -> None:
        """Send a command and do not wait for the answer."""
        os.write(self._to, (" ".join(map(str, words)) + "\n").encode())

    def read_answer(self, limit_s: float = LIMIT_S) -> list[str]:
        """Wait for the answer to the oldest command that has none yet."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            answer = select.poll()
            answer.register(self._back, select.POLLIN)
            if not answer.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError(f"{self.name} did not answer within {limit_s} s")
            heard = os.read(self._back, 65536)
            if not heard:
                raise EOFError(f"{self.name} has ended")
            self._rest += heard
        line, self._rest = self._rest.split(b"\n", 1)
        verdict, *words = line.decode().split()
        if verdict != "ok":
            raise Refused(" ".join(words))
        return words

    def ask(self, *words: object, limit_s: float = LIMIT_S) -> list[str]:
        """Send a command and wait for its answer."""
        self.send_command(*words)
        return self.read_answer(limit_s)

    def refusal(self, *words: object) -> str:
        """Send a command that must fail, and return the name of its errno."""
        try:
            answer = self.ask(*words)
        except Refused as refused:
            return str(refused)
        raise AssertionError(f"{self.name}: {words} succeeded: {answer}")

    def open(self, device: str = DEVICE) -> "Node":
        self.ask("open", device)
        return self

    def qp(self, kind: str = "rc", sends: int = 128, receives: int = 128) -> tuple[int, int]:
        """Create a QP; return its index at this node and its number."""
        index, qpn = self.ask("qp", kind, sends, receives)
        return int(index), int(qpn)

    def region(self, size: int) -> tuple[int, int, int]:
        """Register a region of `size` bytes; return its index, address and rkey."""
        index, address, key = map(int, self.ask("region", size))
        return index, address, key

    def poll(self, count: int, milliseconds: int = 5000) -> Completions:
        """Poll until there are `count` completions or the time is over."""
        return self._completions("poll", count, milliseconds)

    def wait(self, count: int, milliseconds: int = 5000) -> Completions:
        """Like poll(), but the node sleeps on its completion channel."""
        return self._completions("wait", count, milliseconds)

    def _completions(self, *words: object) -> Completions:
        return as_completions(self.ask(*words))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def status(self, field: str) -> int:
        """A number from /proc/PID/status, for example VmRSS (in KiB)."""
        return number_of(Path(f"/proc/{self.pid}/status"), field)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def switches(self) -> int:
        """The number of times that its threads have gone to sleep, in sum."""
        return sum(
            number_of(task / "status", "voluntary_ctxt_switches") for task in Path(f"/proc/{self.pid}/task").iterdir()
        )

    def cpu_ns(self) -> int:
        """The processor time of all threads."""
        return sum(
            int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{self.pid}/task").iterdir()
        )


def as_completions(words: list[str]) -> Completions:
    counts = (word.split("=") for word in words[1:])
    return Completions(int(words[0]), {status: int(count) for status, count in counts})


def number_of(path: Path, field: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def eventually(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    """Wait for a condition that no process announces; return False if it stays false."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def stop(node: Node) -> None:
    """Send SIGSTOP and wait until the process is stopped."""
    node.signal(signal.SIGSTOP)
    assert eventually(lambda: Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")


def connect(a: Node, b: Node, kind: str = "rc", sends: int = 128, receives: int = 128) -> tuple[int, int]:
    """Create a QP at each node and connect the two; return their indexes at their nodes."""
    at_a, qpn_a = a.qp(kind, sends, receives)
    at_b, qpn_b = b.qp(kind, sends, receives)
    a.ask("connect", at_a, qpn_b)
    b.ask("connect", at_b, qpn_a)
    return at_a, at_b


class Nodes:
    """Starts nodes, and ends those that still run at the end of the test."""

    def __init__(self, program: Path, logs: Path) -> None:
        self._program, self._logs = program, logs
        self._processes: list[subprocess.Popen[bytes]] = []
        # The test's end of the socket for a forked child, by the parent's pid.
        self._ends: dict[int, socket.socket] = {}
        self._children: list[socket.socket] = []

    def start(
        self, name: str = "", network: Callable[[list[str]], list[str]] = lambda command: command, devices: str = DEVICE
    ) -> Node:
        """Start a node that has not opened a device yet. It can fork once.

        `network` puts its command into a network namespace; `devices` is the value of
        VERBENA_DEVICES.
        """
        name = name or f"node {len(self._processes)}"
        ours, theirs = socket.socketpair()
        with (self._logs / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                network(["env", f"LD_PRELOAD={NIC}", f"VERBENA_DEVICES={devices}", str(self._program)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        self._processes.append(process)
        self._ends[process.pid] = ours
        number = theirs.fileno()  # pass_fds gives it the same number in the node
        theirs.close()
        return Node(process.pid, process.stdin.fileno(), process.stdout.fileno(), name, number)

    def fork(self, parent: Node) -> Node:
        """Let `parent` fork, and return its child as a node of its own."""
        pid = int(parent.ask("fork", parent.fork_end)[0])
        end = self._ends.pop(parent.pid)
        self._children.append(end)
        child = Node(pid, end.fileno(), end.fileno(), f"child of {parent.name}")
        assert child.read_answer() == ["0"]
        return child

    def kill(self, node: Node) -> None:
        process = next(p for p in self._processes if p.pid == node.pid)
        process.kill()
        self._reap(process)

    def exit_status(self, node: Node) -> int:
        """Wait for a node that ends by itself; a signal's number is negative."""
        return next(p for p in self._processes if p.pid == node.pid).wait(LIMIT_S)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        process.stdin.close()
        process.stdout.close()
        if end := self._ends.pop(process.pid, None):
            end.close()

    def end_all(self) -> None:
        """End the nodes by the end of their input: a process that is killed writes no counters of
        coverage. One that does not exit soon is killed.
        """
        for end in self._children:
            end.close()
        for process in self._processes:
            process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
        eventually(lambda: all(process.poll() is not None for process in self._processes), EXIT_S)
        for process in self._processes:
            # The group still exists if a forked child runs.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self._reap(process)


def build(source: Path, program: Path, *flags: str) -> Path:
    """Compile a file, or the files of a folder, into a program."""
    sources = sorted(source.glob("*.cc")) if source.is_dir() else [source]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-g", *warnings, *sources, "-o", program, *flags, "-libverbs"], check=True
    )
    return program


@pytest.fixture(scope="session")
def node_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    return build(
        Path(__file__).with_name("node"), tmp_path_factory.mktemp("life") / "node", "-Wno-missing-field-initializers"
    )


@pytest.fixture
def nodes(node_program: Path, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(node_program, tmp_path)
    yield made
    made.end_all()


@pytest.fixture
def pair(nodes: Nodes) -> tuple[Node, Node]:
    """Two nodes, each with an open device."""
    return nodes.start("a").open(), nodes.start("b").open()


@pytest.fixture
def hosts() -> Iterator[NamespacePair]:
    """Two network namespaces with a wire between them, of one test."""
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    for side in (0, 1):
        # Link-local addresses come by themselves, at a time that no test can know.
        pair.ip(side, f"link set {INTERFACES[side]} addrgenmode none")
        pair.ip(side, f"address flush dev {INTERFACES[side]} scope link")
    yield pair
    pair.close()


def started(hosts: NamespacePair, nodes: Nodes, side: int, devices: str = "") -> Node:
    """Start a node in one of the namespaces, and open the device of its end of the wire."""

    def network(command: list[str]) -> list[str]:
        return hosts.inside(side, command)

    return nodes.start(f"host {side}", network, devices).open(f"vb_{INTERFACES[side]}")
