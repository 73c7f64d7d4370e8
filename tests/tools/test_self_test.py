# SPDX-License-Identifier: Apache-2.0
"""`verbena self-test` runs, and the NIC works, under the restrictions of containers."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from programs import Programs, Ran
from refusal import Refuse

LIMIT_S = 60.0
USER = 60017
# The calls that Docker's default filter refuses to a process without capabilities, as far as the
# NIC, librdmacm, the C library or a sanitizer make them (moby's profiles/seccomp/default.json).
ADDR_NO_RANDOMIZE = 0x40000
DOCKER = [
    *["add_key:EPERM", "keyctl:EPERM", "userfaultfd:EPERM", "io_uring_setup:EPERM", "unshare:EPERM", "setns:EPERM"],
    *["clone3:ENOSYS", f"personality:0={ADDR_NO_RANDOMIZE}:EPERM"],
]
# A /dev as in a minimal container: devices, and neither shm nor infiniband.
SMALL_DEV = """
dev=$(mktemp -d) && mount -t tmpfs tmpfs $dev || exit 99
for each in null zero full random urandom; do touch $dev/$each; mount --bind /dev/$each $dev/$each || exit 99; done
mount --rbind $dev /dev || exit 99
"""
READ_ONLY = "mount -o remount,bind,ro / || exit 99\n"

Within = Callable[[list[str]], list[str]]


def mounted(script: str) -> Within:
    return lambda words: [
        *["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])],
        *["sh", "-c", f'{script} exec "$@"', "sh", *words],
    ]


def docker(refuse: Refuse, words: list[str]) -> list[str]:
    for rule in DOCKER:
        words = refuse(rule)(words)
    return words


def test(programs: Programs, within: Within = list, *more: str) -> tuple[Ran, dict[str, Any]]:
    words = ["self-test", "--json", "--limit", "50", *(more or ["--no-speed"])]
    ran = programs.run("verbena", *words, within=within, limit_s=LIMIT_S)
    if ran.status == 99:
        pytest.skip("no mount namespaces here")
    return ran, json.loads(ran.out)


test.__test__ = False  # type: ignore[attr-defined]


def levels(result: dict[str, Any]) -> dict[str, str]:
    return {each["subject"]: each["level"] for each in result["findings"]}


def seen(result: dict[str, Any], subject: str) -> str:
    return next(each["seen"] for each in result["findings"] if each["subject"] == subject)


def works(ran: Ran, result: dict[str, Any]) -> None:
    problems = [each for each in result["findings"] if each["level"] == "problem"]
    assert (ran.status, result["works"], problems) == (0, True, []), problems
    found = levels(result)
    for kind in ("RC SEND", "RC WRITE", "RC READ", "UD SEND", "rdma_cm"):
        assert found[f"{kind}, this host"] == "ok", ran


def test_this_machine_runs_rdma_programs(programs: Programs) -> None:
    ran, result = test(programs, list, "--json")
    works(ran, result)
    assert ran.err == "", ran
    measured = {(each["transport"], each.get("op")) for each in result["speed"] if each["where"] == "this host"}
    assert measured == {("UDP", None), ("RC", "send"), ("RC", "write"), ("UD", "send")}, ran
    assert all(each["gib_s"] > 0 for each in result["speed"]), ran
    tried = levels(result).get("RC SEND, two hosts")
    assert tried == "ok" or levels(result)["RoCEv2, two hosts"] == "note", ran


def test_without_shared_memory_folder(programs: Programs) -> None:
    ran, result = test(programs, mounted(SMALL_DEV))
    works(ran, result)
    assert seen(result, "/dev/shm").startswith("none"), ran


def test_with_little_locked_memory(programs: Programs) -> None:
    ran, result = test(programs, lambda words: ["prlimit", "--memlock=65536:65536", *words])
    works(ran, result)
    assert seen(result, "locked memory (ulimit -l)").startswith("64 KiB"), ran


def test_with_a_read_only_root(programs: Programs) -> None:
    ran, result = test(programs, mounted(READ_ONLY))
    works(ran, result)
    assert seen(result, "root file system").startswith("read-only"), ran


def test_under_the_filter_of_docker(programs: Programs, refuse: Refuse) -> None:
    ran, result = test(programs, lambda words: docker(refuse, words))
    works(ran, result)
    assert seen(result, "seccomp").startswith("a filter"), ran
    assert levels(result)["io_uring"] == "note", ran
    assert levels(result)["RoCEv2, two hosts"] == "note" or "RC SEND, two hosts" in levels(result), ran


def test_all_of_it_at_once_as_an_unprivileged_user(programs: Programs, refuse: Refuse) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may start a program of another user")
    user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--no-new-privs"]
    without = ["env", "-u", "XDG_RUNTIME_DIR", "HOME=/nonexistent"]
    ran, result = test(
        programs,
        lambda words: mounted(SMALL_DEV + READ_ONLY)(
            ["prlimit", "--memlock=65536:65536", *without, *docker(refuse, [*user, *words])]
        ),
    )
    works(ran, result)
    assert levels(result)["private folder"] == "note", ran
    assert levels(result)["RoCEv2, two hosts"] == "note", ran


def test_without_memfd_create(programs: Programs, refuse: Refuse) -> None:
    ran, result = test(programs, refuse("memfd_create:EPERM"))
    works(ran, result)
    assert levels(result)["memfd_create"] == "note", ran


def test_a_machine_on_which_the_nic_cannot_run_is_said_to_be_one(programs: Programs, refuse: Refuse) -> None:
    """Neither memfd_create nor /dev/shm: processes can share no memory."""
    begun = time.monotonic()
    ran, result = test(programs, lambda words: mounted(SMALL_DEV)(refuse("memfd_create:EPERM")(words)))
    assert (ran.status, result["works"]) == (1, False), ran
    problems = [each for each in result["findings"] if each["level"] == "problem"]
    assert problems and all(each["advice"] for each in problems), ran
    assert "/dev/shm" in next(each["advice"] for each in problems if each["subject"] == "memfd_create"), ran
    assert time.monotonic() - begun < LIMIT_S, ran


def test_text_has_one_line_for_each_check(programs: Programs) -> None:
    ran = programs.run("verbena", "self-test", "--no-speed", "--limit", "50", limit_s=LIMIT_S)
    assert ran.status == 0, ran
    first = {line.split()[0] for line in ran.out.splitlines()[:-2] if line.split()}
    assert first <= {"ok", "note", "->"}, ran
    assert ran.out.splitlines()[-1].startswith("RDMA programs run here ("), ran


@pytest.mark.parametrize("words", [["--limit", "0"], ["surplus"]])
def test_wrong_usage_has_status_2(programs: Programs, words: list[str]) -> None:
    assert programs.run("verbena", "self-test", *words).status == 2
