# SPDX-License-Identifier: Apache-2.0
"""`verbena doctor` names each system call that the kernel refuses, and what that costs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import Programs
from refusal import Refuse


class Refused(NamedTuple):
    """A system call that is refused, and the finding that shall name it."""

    subject: str
    level: str
    advice: str
    rule: str  # as tests/old_kernels/refuse.c takes it


F_ADD_SEALS, UDP_SEGMENT, UDP_GRO = 1033, 103, 104
REFUSALS = [
    Refused("epoll_pwait2", "note", "second system call", "epoll_pwait2:ENOSYS"),
    Refused("pidfd_open", "note", "peer's death", "pidfd_open:ENOSYS"),
    Refused("io_uring", "note", "epoll instead", "io_uring_setup:ENOSYS"),
    Refused("UDP segmentation offload (GSO)", "note", "slower", f"setsockopt:2={UDP_SEGMENT}:ENOSYS"),
    Refused("UDP receive offload (GRO)", "note", "slower", f"setsockopt:2={UDP_GRO}:ENOSYS"),
    Refused("getrandom", "note", "/dev/urandom", "getrandom:ENOSYS"),
    Refused("memfd_create", "note", "/dev/shm", "memfd_create:ENOSYS"),
    Refused("seals of memfd", "note", "truncating", f"fcntl:1={F_ADD_SEALS}:ENOSYS"),
]


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda refused: refused.subject)
def test_a_refused_system_call_is_named_with_its_cost(programs: Programs, refuse: Refuse, refused: Refused) -> None:
    examined = programs.run("verbena", "doctor", "--json", within=refuse(refused.rule))
    result = json.loads(examined.out)
    finding = next(each for each in result["findings"] if each["subject"] == refused.subject)
    assert finding["level"] == refused.level and refused.advice in finding["advice"], finding
    assert "Function not implemented" in finding["seen"], finding
    assert examined.status == int(result["problem"]), examined


def test_a_machine_that_refuses_nothing_has_no_finding_about_system_calls(programs: Programs) -> None:
    result = json.loads(programs.run("verbena", "doctor", "--json").out)
    levels = {each["subject"]: each["level"] for each in result["findings"]}
    assert {levels[refused.subject] for refused in REFUSALS if refused.subject != "io_uring"} == {"ok"}, levels


def test_the_places_where_libibverbs_looks_are_listed_without_the_nics_own_devices(programs: Programs) -> None:
    result = json.loads(programs.run("verbena", "doctor", "--json").out)
    seen = next(each["seen"] for each in result["findings"] if each["subject"] == "devices without 'verbena run'")
    for folder in ("/sys/class/infiniband", "/dev/infiniband", "/etc/libibverbs.d"):
        there = sorted(os.listdir(folder)) if os.path.isdir(folder) else None
        word = f"there is no {folder}" if there is None else f"{folder} has {' '.join(there)}" if there else "is empty"
        assert word in seen, seen


USER = 60009


@pytest.fixture
def taken_folders() -> Iterator[None]:
    """Another user has made the folders in which the secret of USER could be."""
    if os.geteuid() != 0:
        pytest.skip("only root may start a program of another user")
    folders = [Path(parent, f"verbena-{USER}") for parent in ("/dev/shm", "/tmp")]
    for folder in folders:
        folder.mkdir()
    yield
    for folder in folders:
        folder.rmdir()


@pytest.mark.usefixtures("taken_folders")
def test_a_user_without_a_secret_is_warned(programs: Programs, refuse: Refuse) -> None:
    """There is no keyring, and another user was first to make the user's folders."""
    as_user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"]
    without_keys = [refuse("keyctl:EPERM"), refuse("add_key:EPERM")]
    examined = programs.run(
        "verbena", "doctor", "--json", within=lambda words: without_keys[0](without_keys[1]([*as_user, *words]))
    )
    findings = json.loads(examined.out)["findings"]
    finding = next(each for each in findings if each["subject"] == "names of sockets")
    assert finding["level"] == "note" and "XDG_RUNTIME_DIR" in finding["advice"], finding


def test_the_place_of_the_secret_is_named(programs: Programs, refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    examined = programs.run("verbena", "doctor", "--json", within=refuse("keyctl:EPERM"), env=environment)
    finding = next(each for each in json.loads(examined.out)["findings"] if each["subject"] == "names of sockets")
    assert (finding["level"], finding["seen"]) == ("ok", "the secret is in a file"), finding
