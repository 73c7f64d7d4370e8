# SPDX-License-Identifier: Apache-2.0
"""Programs that run with `verbena run --check`, and what is found."""

import ctypes
import json
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD") or ROOT / "build")
VERBENA = str(BUILD / "verbena")
RULES_BROKEN = 86
# GCC's thread sanitizer needs it where the kernel spreads addresses widely (docs/ci.md). A filter
# of system calls may refuse it.
FIXED_ADDRESSES = ["setarch", "-R"]
if subprocess.run([*FIXED_ADDRESSES, "true"], capture_output=True, timeout=60, check=False).returncode != 0:
    FIXED_ADDRESSES = []

Finding = dict[str, Any]


@dataclass
class Ran:
    status: int
    errors: str
    findings: list[Finding]

    def rules(self) -> set[str]:
        return {finding["rule"] for finding in self.findings}


def in_namespace(more: str, words: list[str]) -> list[str]:
    """Return a command that runs another one where there is an interface d0, after `more`."""
    made = "ip link add d0 type veth peer name d1 && ip link set d0 addrgenmode none && ip link set d1 up"
    made += " && ip link set d0 up && ip address add 192.0.2.77/24 dev d0"
    script = f"{made} && {more} && exec {' '.join(words)}"
    return ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script]


def has_debug_registers() -> bool:
    """Return whether perf_event_open(2) lets this process watch a word of its memory."""
    word = ctypes.c_uint64()
    # linux/perf_event.h and linux/hw_breakpoint.h
    kind, size, period, user_only, reads_and_writes = 5, 128, 1, 1 << 5 | 1 << 6, 3
    facts = struct.pack(
        "<IIQQQQQIIQQ", kind, size, 0, period, 0, 0, user_only, 0, reads_and_writes, ctypes.addressof(word), 8
    )
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    event = ctypes.CDLL(None).syscall(number, facts.ljust(size, b"\0"), 0, -1, -1, 0)
    if event >= 0:
        os.close(event)
    return event >= 0


@dataclass
class Checked:
    """The way to run the programs of the rules."""

    programs: Path
    folder: Path

    def command(self, words: list[str], *options: str, level: str = "advice") -> Ran:
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        run = [*FIXED_ADDRESSES, VERBENA, "run", f"--check={level}", "--report", str(report), *options, "--", *words]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        findings = json.loads(report.read_text())["findings"] if report.exists() else []
        return Ran(done.returncode, done.stderr, findings)

    def program(self, rule: str, kind: str, *options: str, level: str = "advice") -> Ran:
        words = [str(self.programs), rule.replace("-", "_"), kind]
        if rule == "gid-index-0":
            # A device with a link-local GID and a routable one.
            words = in_namespace("ip address add fe80::77/64 dev d0 nodad", words)
            options = ("--devices", "vb_d0", *options)
        if rule == "atomic-two-devices":
            words = in_namespace("ip link set lo up", words)
            options = ("--devices", "vb_d0,vb_lo", *options)
        if rule == "iwarp-read-sink":
            options = ("--profile", "siw", *options)
        return self.command(words, *options, level=level)
