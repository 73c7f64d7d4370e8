"""Runs the measuring programs, each as two processes that are pinned to two cores.

The sender (client) runs on the first core, the receiver (server) on the second.
"""

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from outputs import NoResult, Sample, parse_perftest, parse_rcud, parse_ucx

LIMIT_S = 30  # seconds for one run, and for the start of a server
DEVICE = "vb_lo"  # the software NIC's loopback device: MTU 4096


class Missing(Exception):
    """A program or a right that is needed is missing; the text says how to get it."""


def find(program: str, package: str) -> str:
    """Return the path of a program; raise Missing with the Debian package that has it."""
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{program} is not installed: apt-get install {package}")
    return found


def free_port() -> int:
    """Return a TCP port that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """Return whether a process listens on a TCP port.

    Reads the kernel's tables: the server would take a trial connection for its client.
    """
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        if any(fields[1].endswith(wanted) and fields[3] == "0A" for fields in map(str.split, lines)):
            return True
    return False


@dataclass(frozen=True)
class Machine:
    """The build to measure and the two cores to measure on. Each method makes one run."""

    build: Path
    cores: tuple[int, int]
    realtime: bool = False  # use SCHED_FIFO, so that no other program runs on the two cores

    def pinned(self, core: int, command: list[str]) -> list[str]:
        """Return the command that runs `command` on one core."""
        return [*(["chrt", "-f", "10"] if self.realtime else []), "taskset", "-c", str(core), *command]

    def pair(self, server: list[str], client: list[str], port: int, environment: dict[str, str]) -> str:
        """Run a server and its client, and return the standard output of the client."""
        env = os.environ | environment
        with subprocess.Popen(
            self.pinned(self.cores[1], server), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as serving:
            try:
                deadline = time.monotonic() + LIMIT_S
                while not listens(port):
                    if serving.poll() is not None or time.monotonic() > deadline:
                        serving.kill()
                        raise NoResult(
                            f"{server[0]} did not begin to listen: "
                            f"{(serving.stderr.read() if serving.stderr else '').strip()}"
                        )
                    time.sleep(0.005)
                done = subprocess.run(
                    self.pinned(self.cores[0], client),
                    env=env,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                    check=False,
                )
                serving.wait(LIMIT_S)
            except subprocess.TimeoutExpired as error:
                raise NoResult(f"{client[0]} did not finish within {LIMIT_S} s") from error
            finally:
                if serving.poll() is None:
                    serving.kill()
        if done.returncode != 0:
            raise NoResult(
                f"{client[0]} failed with exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
            )
        return done.stdout

    def ucx(self, test: list[str], size: int, iterations: int) -> Sample:
        """Measure with ucx_perftest; `test` are the options that choose the test."""
        program = find("ucx_perftest", "ucx-utils")
        port = free_port()
        # Posix shared memory copies twice. By default UCX would use CMA for large messages, which
        # is slower here. The server gets the test from the client.
        environment = {"UCX_TLS": "posix,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        common = [program, "-p", str(port)]
        client = [
            *common,
            "127.0.0.1",
            *test,
            "-s",
            str(size),
            "-n",
            str(iterations),
            "-w",
            str(min(iterations // 10, 10_000)),
            "-f",
            "-v",
        ]
        return parse_ucx(self.pair(common, client, port, environment), iterations)

    def perftest(self, program: str, options: list[str], size: int, iterations: int) -> Sample:
        """Measure with a program of perftest, over the software NIC."""
        port = free_port()
        common = [
            find(program, "perftest"),
            *f"-F -d {DEVICE} -x 0 -s {size} -n {iterations} -p {port}".split(),
            *options,
        ]
        environment = {"LD_PRELOAD": str((self.build / "libverbena-nic.so").resolve()), "VERBENA_DEVICES": DEVICE}
        return parse_perftest(self.pair(common, [*common, "127.0.0.1"], port, environment), iterations)

    def rcud(self, op: str, size: int, window: int, iterations: int) -> Sample:
        """Measure with `verbena bench rcud`.

        It pins its two processes itself, to the first two cores that it may use, the sender to the
        first one.
        """
        options = f"bench rcud --quiet --modes rc --ops {op} --window-mode local --device {DEVICE}"
        options += f" --sizes {size} --windows {window}"
        options += f" --iters {iterations} --warmup {iterations // 10} --reps 1 --json -"
        command = [str(self.build / "verbena"), *options.split()]
        prefix = [*(["chrt", "-f", "10"] if self.realtime else []), "taskset", "-c", ",".join(map(str, self.cores))]
        try:
            done = subprocess.run([*prefix, *command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoResult(f"verbena bench rcud did not finish within {LIMIT_S} s") from error
        if not done.stdout:
            raise NoResult(f"verbena bench rcud failed with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return parse_rcud(done.stdout)
