# SPDX-License-Identifier: Apache-2.0
"""Two processes that exchange messages over the NIC (pair.c), and the verdict on how they ended."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

KINDS = ("verbs", "rdma_cm", "rsocket")
SIDES = ("server", "client")
DONE, CLEAN_ERROR, LOST_EVENT, WRONG_DATA = 0, 1, 5, 6


def compile_pair(folder: Path) -> Path:
    program = folder / "pair"
    sources = [str(path) for path in sorted(Path(__file__).parent.glob("*.c"))]
    subprocess.run(["gcc", "-O1", "-g", "-o", str(program), *sources, "-lrdmacm", "-libverbs"], check=True)
    return program


class Pair:
    """Both processes of a pair, stopped before their first call of the NIC."""

    def __init__(self, build: Path, program: Path, kind: str) -> None:
        ends = socket.socketpair()
        self.logs = [tempfile.TemporaryFile() for _ in SIDES]  # noqa: SIM115 (end() closes them)
        self.processes = [
            subprocess.Popen(
                [str(program), kind, side, str(end.fileno())],
                env={**os.environ, "LD_PRELOAD": str(build / "libverbena-nic.so"), "VERBENA_DEVICES": "vb_lo"},
                pass_fds=[end.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
            for side, end, log in zip(SIDES, ends, self.logs, strict=True)
        ]
        for end in ends:
            end.close()

    def wait_until_ready(self) -> None:
        for process in self.processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == b"ready\n", line

    def go(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            # A fault may have ended the program while it waited for this line.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"go\n")
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def wait(self, deadline: float) -> list[int | None]:
        """The statuses of both; None for one that was not done in time."""
        statuses: list[int | None] = []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(0.0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        return statuses

    def output(self) -> str:
        texts = []
        for log in self.logs:
            log.seek(0)
            texts.append(log.read().decode(errors="replace"))
        return "".join(texts).strip()

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        for log in self.logs:
            log.close()


def verdict_of(statuses: list[int | None]) -> str:
    if None in statuses:
        return "hang"
    if -signal.SIGABRT in statuses:
        return "abort"
    if any(status is not None and status < 0 for status in statuses):
        return "signal"
    if WRONG_DATA in statuses:
        return "wrong data"
    if CLEAN_ERROR in statuses:
        return "clean error"
    if LOST_EVENT in statuses:
        return "lost event"
    return "passed" if statuses == [DONE, DONE] else "clean error"


GOOD = ("passed", "clean error")
