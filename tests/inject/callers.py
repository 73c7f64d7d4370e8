# SPDX-License-Identifier: Apache-2.0
"""Distinguishes the system calls that the NIC makes from those of librdmacm and the program.

`strace -k` prints the stack under each call. A call is the NIC's if its caller is: the first frame
outside of the runtime libraries of C and C++ is in libverbena-nic.so. librdmacm's rsockets, for
example, write to sockets of their own and cannot bear that such a call fails. A call whose caller
is not known counts as the NIC's.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

RUNTIME = re.compile(r"/(libc|libm|libpthread|libgcc_s|libstdc\+\+|ld-linux[\w-]*)\.so")
NIC = "libverbena-nic.so"
# Passes librdmacm's calls on to libc, and makes none of its own. It has a frame only in builds
# without tail calls, as those with coverage counters.
PASSES_ON = "verbena::ucma::redirected_write"
CALL = re.compile(r"(?P<thread>\d+) +(?:<\.\.\. )?(?P<name>\w+)(?:\(| resumed>)")
FRAME = re.compile(r" > (?P<file>[^( ]+)(?:\((?P<function>.*)\+0x[0-9a-f]+\))?")
ARGUMENTS = re.compile(r"\(.*|<.*")


@dataclass(frozen=True)
class Call:
    name: str
    occurrence: int  # in its thread, from 1
    injected: bool
    caller: str | None  # the NIC's function; None if the call is not the NIC's


def caller_of(frames: Iterable[str]) -> str | None:
    """The NIC's function that made the call, or None."""
    for line in frames:
        frame = FRAME.match(line)
        if frame is None:
            return "unknown"
        if RUNTIME.search(frame["file"]):
            continue
        if not frame["file"].endswith(NIC):
            return None
        function = ARGUMENTS.sub("", (frame["function"] or "unknown").replace("(anonymous namespace)::", ""))
        if function == PASSES_ON:
            continue
        return function
    return "unknown"


def calls_of(trace: Iterable[str]) -> list[Call]:
    """Read the output of strace -f -k."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    calls: list[Call] = []
    found: tuple[str, int, bool] | None = None
    frames: list[str] = []

    def finish() -> None:
        if found is not None:
            calls.append(Call(*found, caller_of(frames)))
        frames.clear()

    for line in trace:
        if line.startswith(" > "):
            frames.append(line)
            continue
        finish()
        found = None
        call = CALL.match(line)
        if call is not None and "<unfinished ...>" not in line:
            counts[call["thread"], call["name"]] += 1
            found = call["name"], counts[call["thread"], call["name"]], "(INJECTED)" in line
    finish()
    return calls
