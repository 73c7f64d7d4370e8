# SPDX-License-Identifier: Apache-2.0
"""Under a limit of the system a program gets an errno value, or works: no signal, no hang.

The pairs are those of tests/inject/pair.c; the limit holds for both sides from their first call of
the NIC on.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "inject"))
import pairs_of_processes as inject  # noqa: E402

BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
LIMIT_S = 40.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield inject.compile_pair(tmp_path_factory.mktemp("pair"))


def run_limited(program: Path, kind: str, which: int, limit: int) -> tuple[str, str]:
    pair = inject.Pair(BUILD, program, kind)
    try:
        pair.wait_until_ready()
        for process in pair.processes:
            resource.prlimit(process.pid, which, (limit, limit))
        pair.go()
        statuses = pair.wait(time.monotonic() + LIMIT_S)
        return inject.verdict_of(statuses), pair.output()
    finally:
        pair.end()


@pytest.mark.parametrize("kind", inject.KINDS)
def test_every_small_limit_of_descriptors(program: Path, kind: str) -> None:
    for limit in [*range(4, 40, 3), 64]:
        verdict, output = run_limited(program, kind, resource.RLIMIT_NOFILE, limit)
        assert verdict in inject.GOOD, f"{limit} descriptors: {verdict}\n{output}"
        if limit in (4, 64):
            assert verdict == ("passed" if limit == 64 else "clean error"), output


def address_space(program: Path) -> int:
    """The address space of a side before its first call of the NIC, in bytes."""
    pair = inject.Pair(BUILD, program, "verbs")
    try:
        pair.wait_until_ready()
        return int(Path(f"/proc/{pair.processes[0].pid}/statm").read_text().split()[0]) * resource.getpagesize()
    finally:
        pair.end()


@pytest.mark.parametrize("kind", inject.KINDS)
def test_every_small_limit_of_address_space(program: Path, kind: str) -> None:
    base = address_space(program)
    for extra in [0, 1, 2, 3, 4, 6, 8, 10, 12, 14]:
        limit = base + (extra << 20)
        verdict, output = run_limited(program, kind, resource.RLIMIT_AS, limit)
        assert verdict in inject.GOOD, f"{extra} MiB: {verdict}\n{output}"


def test_no_thread_can_be_made(program: Path, tmp_path: Path) -> None:
    """A limit of processes holds for unprivileged users only."""
    if os.geteuid() != 0:
        pytest.skip("only root can change to a user that has no processes")
    shutil.copy(program, tmp_path / "pair")
    unprivileged = ["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups"]
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    done = subprocess.run(
        ["prlimit", "--nproc=1", *unprivileged, "env", f"LD_PRELOAD={BUILD / 'libverbena-nic.so'}", "ibv_devinfo"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode > 0, done
    assert done.returncode != 128 + signal.SIGABRT, done
    assert "Failed to open device" in done.stderr + done.stdout, done
