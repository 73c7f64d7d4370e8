# SPDX-License-Identifier: Apache-2.0
"""An echo_server that has ended leaves no socket name and no shared memory file on its host."""

import re
import signal
from pathlib import Path

import pytest
from echo import check_good, serve
from programs import Programs, wait_until

SHARED_MEMORY = Path("/dev/shm")


def descriptors(pid: int) -> list[str]:
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(link.readlink()))
        except FileNotFoundError:
            continue  # closed in the meantime
    return targets


def socket_names() -> dict[str, str]:
    """The names of all Unix sockets that have one, by inode. An abstract name begins with @."""
    rows = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]]
    return {row[6]: row[7] for row in rows if len(row) == 8}


def socket_names_of(pid: int) -> set[str]:
    names = socket_names()
    inodes = [target.removeprefix("socket:[").removesuffix("]") for target in descriptors(pid)]
    return {names[inode] for inode in inodes if inode in names}


def shared_files_of(pid: int) -> set[str]:
    mapped = [line.split(maxsplit=5)[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {name for name in [*descriptors(pid), *mapped] if name.startswith(f"{SHARED_MEMORY}/")}


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_server_that_has_ended(programs: Programs, by: signal.Signals) -> None:
    server, where = serve(programs)
    check_good(programs.run("performance_test", "-c", 20, "-n", 2, "-t", 0, "-s", where), 20)
    names, files = socket_names_of(server.pid), shared_files_of(server.pid)
    assert names, "a NIC has the name of its queue pairs' numbers"
    server.end(by)
    wait_until(lambda: names.isdisjoint(socket_names().values()), f"none of {names} is there any more")
    assert not [name for name in files if Path(name).exists()]
    # The folders of users stay, for all of their programs (base/private_folder.h).
    left = [each.name for each in SHARED_MEMORY.iterdir() if "verbena" in each.name]
    assert not [name for name in left if not re.fullmatch(r"verbena-\d+", name)]
