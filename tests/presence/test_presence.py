# SPDX-License-Identifier: Apache-2.0
"""Programs find our devices where the kernel shows its own, by every way that they use for it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Ran, Run, compile_c

VB_LO = "/sys/class/infiniband/vb_lo"


def check(ran: Ran) -> str:
    assert ran.returncode == 0 and not ran.stderr, f"status {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("flags", [[], ["-D_FORTIFY_SOURCE=2"], ["-D_FILE_OFFSET_BITS=64"]], ids=str)
def test_each_call_of_libc_finds_what_the_kernel_would_show(run: Run, tmp_path: Path, flags: list[str]) -> None:
    check(run(compile_c("calls", tmp_path, "-Wno-unused-result", "-Wno-nonnull", *flags)))


def test_calls_by_names_that_few_programs_use_find_it_too(run: Run, tmp_path: Path) -> None:
    check(run(compile_c("variants", tmp_path, "-Wno-unused-result", "-D_FORTIFY_SOURCE=2")))


def test_files_say_what_the_verbs_say(run: Run, tmp_path: Path) -> None:
    check(run(compile_c("queries", tmp_path)))


def test_descriptors_of_an_open_device_can_be_polled_duplicated_and_made_nonblocking(run: Run, tmp_path: Path) -> None:
    check(run(compile_c("descriptors", tmp_path)))


def test_stat_functions_of_old_programs_find_the_device(run: Run) -> None:
    program = """
import ctypes, os, stat
libc = ctypes.CDLL(None)
node = next(name for name in os.listdir("/dev/infiniband") if name.startswith("uverbs"))
path = ("/dev/infiniband/" + node).encode()
buffer = ctypes.create_string_buffer(256)
mode = lambda: int.from_bytes(buffer.raw[24:28], "little")  # st_mode on x86-64
for name in ("__xstat", "__xstat64", "__lxstat", "__lxstat64"):
    assert getattr(libc, name)(1, path, buffer) == 0, name
    assert os.uname().machine != "x86_64" or stat.S_ISCHR(mode()), name
for name in ("__fxstatat", "__fxstatat64"):
    assert getattr(libc, name)(1, -100, path, buffer, 0) == 0, name
fd = os.open(path, os.O_RDWR)
for name in ("__fxstat", "__fxstat64"):
    assert getattr(libc, name)(1, fd, buffer) == 0, name
    assert os.uname().machine != "x86_64" or stat.S_ISCHR(mode()), name
"""
    check(run("/usr/bin/python3", "-c", program))


def test_ls_shows_devices_and_links(run: Run) -> None:
    listing = check(run("ls", "-l", "/dev/infiniband", "/sys/class/infiniband/"))
    assert "vb_lo -> ../../devices/virtual/infiniband/vb_lo" in listing
    assert "crw-rw-rw-" in listing and "231, " in listing


def test_find_walks_the_tree_and_knows_its_types(run: Run) -> None:
    found = check(run("find", f"{VB_LO}/", "-name", "state"))
    assert found == f"{VB_LO}/ports/1/state\n"
    assert "/dev/infiniband/uverbs" in check(run("find", "/dev/infiniband", "-type", "c"))


def test_cat_prints_the_files(run: Run) -> None:
    assert check(run("cat", f"{VB_LO}/node_type", f"{VB_LO}/ports/1/state")) == "1: CA\n4: ACTIVE\n"
    empty = run("cat", f"{VB_LO}/ports/1/gid_attrs/types/255")
    assert empty.returncode == 1 and "Invalid argument" in empty.stderr


def test_bash_expands_patterns_reads_and_may_not_write(run: Run) -> None:
    script = f"""
        echo /sys/class/infiniband/*/ports/*/state
        read -r state < {VB_LO}/ports/1/state; echo "$state"
        cd {VB_LO} && pwd -P && cat ports/1/link_layer
        for node in /dev/infiniband/uverbs*; do test -c "$node" && test -w "$node" || echo "$node"; done
    """
    lines = check(run("bash", "-c", script)).splitlines()
    assert f"{VB_LO}/ports/1/state" in lines[0].split()
    assert lines[1:] == ["4: ACTIVE", "/sys/devices/virtual/infiniband/vb_lo", "Ethernet"]
    refused = run("bash", "-c", f"echo name > {VB_LO}/node_desc")
    assert refused.returncode != 0 and "Permission denied" in refused.stderr


def test_python_finds_the_tree(run: Run) -> None:
    program = f"""
import glob, os, pathlib
assert "vb_lo" in os.listdir("/sys/class/infiniband")
assert [e.name for e in os.scandir("{VB_LO}/ports")] == ["1"]
assert os.path.realpath("{VB_LO}") == "/sys/devices/virtual/infiniband/vb_lo"
assert "{VB_LO}/ports/1/gids/0" in glob.glob("/sys/class/infiniband/*/ports/*/gids/0")
assert pathlib.Path("{VB_LO}/ports/1/rate").read_text() == "100 Gb/sec (4X EDR)\\n"
assert os.listdir("{VB_LO}/device/net") == ["lo"]
"""
    check(run("/usr/bin/python3", "-c", program))


def test_rdma_link_lists_the_devices(run: Run) -> None:
    links = {link["ifname"]: link for link in json.loads(check(run("rdma", "-j", "link", "show")))}
    assert links["vb_lo"]["state"] == "ACTIVE" and links["vb_lo"]["netdev"] == "lo"
    devices = {device["ifname"]: device for device in json.loads(check(run("rdma", "-j", "dev", "show")))}
    guid = check(run("cat", f"{VB_LO}/node_guid")).strip()
    assert devices["vb_lo"]["node_guid"] == guid and devices["vb_lo"]["fw"] == "0.1.0"


def test_rdma_shows_the_mode_of_the_system_and_no_resources(run: Run) -> None:
    assert "netns exclusive" in check(run("rdma", "system", "show"))
    resources = {device["ifname"] for device in json.loads(check(run("rdma", "-j", "resource", "show")))}
    assert "vb_lo" in resources
    for kind in ("qp", "cm_id", "cq", "mr", "pd"):
        assert "vb_lo" not in check(run("rdma", "resource", "show", kind)), kind


def test_rdma_cannot_change_a_device(run: Run) -> None:
    refused = run("rdma", "dev", "set", "vb_lo", "name", "other")
    assert refused.returncode != 0 and "Operation not supported" in refused.stderr


def test_ucx_finds_transports_on_our_devices(run: Run) -> None:
    found = check(run("ucx_info", "-d"))
    for transport in ("rc_verbs", "ud_verbs"):
        assert f"Transport: {transport}" in found, found
    assert "Device: vb_" in found


def test_processes_of_a_user_share_one_tree(run: Run, runtime: Path) -> None:
    for _ in range(3):
        check(run("ls", VB_LO))
    assert len(list((runtime / "verbena").iterdir())) == 1
    assert (runtime / "verbena").stat().st_mode & 0o7777 == 0o700


def test_tree_that_was_removed_is_made_again(run: Run, runtime: Path) -> None:
    program = f"""
import os, shutil, time
assert os.path.exists("{VB_LO}")
shutil.rmtree("{runtime}/verbena")
deadline = time.monotonic() + 20
while not os.path.exists("{VB_LO}"):
    assert time.monotonic() < deadline
"""
    check(run("/usr/bin/python3", "-c", program))


def test_folder_that_others_can_write_to_is_not_used(run: Run, runtime: Path) -> None:
    squatted = runtime / "verbena"
    squatted.mkdir()
    squatted.chmod(0o777)
    assert check(run("cat", f"{VB_LO}/node_type")) == "1: CA\n"
    assert not list(squatted.iterdir())


def test_program_runs_on_where_no_folder_can_be_made(run: Run, tmp_path: Path) -> None:
    """All the places are read-only or absent: the files are not there, and verbs work."""
    private = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespaces here: unshare --mount is refused")
    read_only = 'for i in /dev/shm /tmp; do mount -t tmpfs -o ro none $i; done; exec "$@"'
    program = shutil.which("ibv_devices")
    before = (*private, "sh", "-c", read_only, "sh", "env", f"HOME={tmp_path / 'absent'}")
    assert program
    assert "vb_lo" in check(run(program, before=before))
    absent = run("ls", "/sys/class/infiniband/vb_lo", before=before)
    assert absent.returncode == 2 and "No such file or directory" in absent.stderr
