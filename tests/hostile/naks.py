# SPDX-License-Identifier: Apache-2.0
"""Two hosts with a checked stream between them (stream.cc), and a process that forges NAKs
(forge_naks.cc) as an unprivileged user of the receiver's host."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60
NOBODY = "65534"

sys.path.append(str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, INTERFACES, NamespacePair  # noqa: E402

SENDER, RECEIVER = 0, 1


def build(name: str, folder: Path, *libraries: str) -> Path:
    program = folder / name
    flags = ["-std=c++23", "-O2", f"-I{ROOT}", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(["g++", *flags, HERE / f"{name}.cc", "-o", program, *libraries], check=True)
    return program


class End:
    """One process of the stream."""

    def __init__(self, hosts: NamespacePair, side: int, program: Path, role: str, milliseconds: int) -> None:
        command = ["env", f"LD_PRELOAD={NIC}", "VERBENA_LOG=warn", str(program), f"vb_{INTERFACES[side]}", role]
        self._process = subprocess.Popen(
            hosts.inside(side, [*command, str(milliseconds)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = ADDRESSES[side]
        words = self.line().split()
        assert len(words) == 2, self.result()
        self.qpn, self.psn = map(int, words)

    def line(self) -> str:
        return self._process.stdout.readline().rstrip("\n")

    def write(self, text: str) -> None:
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def connect(self, other: "End") -> None:
        self.write(f"{other.qpn} {other.psn} {other.address}\n")
        assert self.line() == "connected"

    def result(self) -> tuple[dict[str, int], str]:
        """Wait for the end; return the values that it printed and its standard error."""
        out, err = self._process.communicate(timeout=LIMIT_S)
        assert self._process.returncode == 0, err
        values = dict(line.split() for line in out.splitlines())
        return {name: int(value) for name, value in values.items()}, err

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()


class Outcome(NamedTuple):
    sent: dict[str, int]
    received: dict[str, int]
    log: str
    forged: int


def stream_under_attack(hosts: NamespacePair, programs: Path, seconds: float, packets_per_second: int) -> Outcome:
    """Run the stream, and while it runs, the forger."""
    ends: list[End] = []
    try:
        for side, role in ((SENDER, "send"), (RECEIVER, "receive")):
            ends.append(End(hosts, side, programs / "stream", role, int(seconds * 1000)))
        sender, receiver = ends
        receiver.connect(sender)
        sender.connect(receiver)
        assert sender.line() == "began"
        unprivileged = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
        forger = [str(programs / "forge_naks"), ADDRESSES[RECEIVER], ADDRESSES[SENDER], str(sender.qpn)]
        forged = subprocess.run(
            hosts.inside(RECEIVER, [*unprivileged, *forger, str(packets_per_second), str(seconds - 0.5)]),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        sent, log = sender.result()
        received, _ = receiver.result()
        return Outcome(sent, received, log, int(forged.stdout))
    finally:
        for end in ends:
            end.kill()
