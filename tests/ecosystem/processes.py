# SPDX-License-Identifier: Apache-2.0
"""The processes below this one: finding them, and ending those that a check has started.

A program may put its processes into a session of their own, or let them outlive their parent.
adopt_orphans() makes this process the parent of the latter, so that descendants() still finds them.
"""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)

# A pid and its start time, because the kernel uses pids again.
Identity = tuple[int, str]


def adopt_orphans(adopt: bool) -> None:
    """Choose whether processes below this one whose parent has ended become its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(pid: int) -> Iterator[int]:
    """The pid itself and all processes below it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def below() -> set[Identity]:
    """All processes below this one, also those that have ended and not been waited for."""
    return {(pid, stat[19]) for pid in descendants(os.getpid()) if pid != os.getpid() and (stat := fields_of(pid))}


def end_all_but(spared: set[Identity]) -> None:
    """Kill all processes below this one but `spared`, until none is left.

    Call it while orphans are adopted: each kill may bring children of the killed process here.
    """
    while left := below() - spared:
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid, _ in left:
            # A grandchild is waited for by its parent, or here once its parent is gone.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def fields_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none if there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return []


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def cpu_seconds(pid: int) -> float:
    fields = fields_of(pid)
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS if fields else 0.0
