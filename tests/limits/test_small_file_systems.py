# SPDX-License-Identifier: Apache-2.0
"""With little room in /dev/shm and in XDG_RUNTIME_DIR, programs work, or fail with a line that says
why.

Each process has a mount namespace of its own, with a small tmpfs at both places. The NIC needs
/dev/shm only where memfd_create() is refused, as by some containers.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "clients"))
from pairs import Command, PairRan, Runner, free_port, run_pair  # noqa: E402

MOUNT = "for at in /dev/shm {runtime}; do mount -t tmpfs -o size={size} tmpfs $at || exit 99; done"


def in_namespace(mounts: str, command: Command) -> Command:
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{mounts}; exec "$@"', "sh", *command]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    done = subprocess.run(in_namespace("mount -t tmpfs tmpfs /dev/shm", ["true"]), capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("no mount namespaces here")
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    made = Runner(tmp_path)
    made.way = [
        "env",
        f"XDG_RUNTIME_DIR={runtime}",
        "VERBENA_DEVICES=vb_lo",
        "UCX_TLS=rc_verbs,ud_verbs,self",
        *made.way[1:],
    ]
    yield made
    made.end()


@pytest.fixture(scope="module")
def refuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("refuse") / "refuse"
    subprocess.run(["gcc", "-O1", "-o", program, TESTS / "old_kernels" / "refuse.c"], check=True)
    return program


def run_small(runner: Runner, name: str, size: str, before: Command) -> PairRan:
    port = str(free_port())
    server, client = {
        "ibv_rc_pingpong": (
            ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-p", port],
            ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-p", port, "127.0.0.1"],
        ),
        "ucx_perftest": (
            ["ucx_perftest", "-t", "tag_lat", "-n", "100", "-p", port],
            ["ucx_perftest", "-t", "tag_lat", "-n", "100", "-p", port, "127.0.0.1"],
        ),
    }[name]
    mounts = MOUNT.format(runtime=runner.logs / "runtime", size=size)

    def small(command: Command) -> Command:
        return in_namespace(mounts, [*before, *command])

    return run_pair(runner, server, client, port=int(port), networks=(small, small))


@pytest.mark.parametrize("size", ["4k", "64k"])
@pytest.mark.parametrize("name", ["ibv_rc_pingpong", "ucx_perftest"])
def test_a_program_needs_no_room(runner: Runner, name: str, size: str) -> None:
    ran = run_small(runner, name, size, [])
    assert (ran.server.status, ran.client.status) == (0, 0), ran


@pytest.mark.parametrize(("size", "works"), [("4k", False), ("16k", None), ("64k", None), ("2m", True)])
def test_a_program_works_or_says_why_where_memfd_is_refused(
    runner: Runner, refuse: Path, size: str, works: bool | None
) -> None:
    """The sizes between allow a device, and not each of the connections."""
    ran = run_small(runner, "ibv_rc_pingpong", size, [str(refuse), "memfd_create:ENOSYS", "--"])
    if ran.client.status == 0:
        assert works is not False and ran.server.status == 0, ran
    else:
        assert works is not True and ran.client.status == 1, ran
        assert works is None or "No space left on device" in ran.server.output + ran.client.output, ran


@pytest.mark.parametrize("refused", [False, True], ids=["as it is", "memfd_create refused"])
def test_rping_works_with_little_room(runner: Runner, refuse: Path, refused: bool) -> None:
    before = [str(refuse), "memfd_create:ENOSYS", "--"] if refused else []
    mounts = MOUNT.format(runtime=runner.logs / "runtime", size="2m" if refused else "4k")

    def small(command: Command) -> Command:
        return in_namespace(mounts, [*before, *command])

    words = ["rping", "-a", "127.0.0.1", "-p", str(free_port()), "-C", "10"]
    deadline = time.monotonic() + 30
    server, log = runner.start([*words, "-s"], small)
    while True:  # the client is refused until the server listens
        client = runner.run([*words, "-c"], small)
        if client.status == 0 or time.monotonic() > deadline:
            break
    assert client.status == 0, client
    assert runner.finish(server, log, words, deadline).status == 0, log.read_text()
