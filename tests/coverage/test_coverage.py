# SPDX-License-Identifier: Apache-2.0
"""The figures of `make coverage`, from the JSON of llvm-cov."""

import os
from pathlib import Path

import pytest
import run


def a_file(name: str, lines: tuple[int, int], branches: tuple[int, int]) -> dict:
    return {
        "filename": name,
        "summary": {
            "lines": {"count": lines[0], "covered": lines[1]},
            "branches": {"count": branches[0], "covered": branches[1]},
        },
    }


EXPORTED = {
    "data": [
        {
            "files": [
                a_file("/src/nic/wire/bth.cc", (100, 90), (20, 10)),
                a_file("/src/nic/cm/incoming.cc", (300, 150), (0, 0)),
                a_file("/src/nic/cm/message_test.cc", (50, 50), (2, 2)),
                a_file("/src/lib/rpc/client.cc", (10, 10), (4, 4)),
                a_file("/usr/include/fmt/format.h", (900, 1), (900, 1)),
                a_file("/src/build/generated.cc", (900, 1), (900, 1)),
            ]
        }
    ]
}


def test_only_the_projects_own_code_is_counted_and_not_its_tests():
    names = [file.name for file in run.files_of(EXPORTED, Path("/src"))]
    assert names == ["nic/wire/bth.cc", "nic/cm/incoming.cc", "lib/rpc/client.cc"]


def test_a_room_is_the_sum_of_its_files():
    rooms = {room.name: room for room in run.rooms_of(run.files_of(EXPORTED, Path("/src")))}
    assert list(rooms) == ["lib", "lib/rpc", "nic", "nic/cm", "nic/wire"]
    assert rooms["nic"].line_share() == 240 / 400
    assert rooms["nic"].branch_share() == 10 / 20
    assert rooms["nic/cm"].branch_share() == 1.0  # it has no branches


def test_the_file_with_the_most_lines_that_did_not_run_is_first():
    files = run.files_of(EXPORTED, Path("/src"))
    assert [file.name for file in run.least_covered(files, 2)] == ["nic/cm/incoming.cc", "nic/wire/bth.cc"]


def test_the_tests_of_a_floor_are_read_before_programs_that_only_include_its_headers(tmp_path: Path):
    (tmp_path / "bench").mkdir()
    for name in ("bench/bench_kv_test", "bench/lib_channel_test", "kv_server", "libverbena-nic.so", "nic_wire_test"):
        (tmp_path / name).write_bytes(b"\x7fELF")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "build.ninja").write_text("no program")
    names = [Path(word).name for word in run.objects_in(tmp_path) if word != "-object"]
    assert names == ["lib_channel_test", "nic_wire_test", "libverbena-nic.so", "kv_server", "bench_kv_test"]


def test_each_user_may_write_the_counters_of_another_whatever_the_umask(tmp_path: Path):
    run.share(tmp_path)
    if "system.posix_acl_default" not in os.listxattr(tmp_path):
        pytest.skip("this file system has no access control lists")
    before = os.umask(0o077)
    try:
        (tmp_path / "1.profraw").touch(0o666)
    finally:
        os.umask(before)
    assert (tmp_path / "1.profraw").stat().st_mode & 0o777 == 0o666
    assert tmp_path.stat().st_mode & 0o1777 == 0o777
