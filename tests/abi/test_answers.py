# SPDX-License-Identifier: Apache-2.0
"""Verbs that once answered wrongly (answers.cc), each test named after what went wrong."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"

RTS, ERR = 3, 6  # enum ibv_qp_state
SUCCESS, MW_BIND_ERR = 0, 6  # enum ibv_wc_status


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("answers") / "answers"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    source = Path(__file__).with_name("answers.cc")
    subprocess.run(["g++", *flags, source, "-o", target, "-libverbs"], check=True)
    return target


def ask(program: Path, question: str) -> dict[str, int]:
    done = subprocess.run(
        [program, question],
        env=os.environ | {"LD_PRELOAD": str(LIBRARY), "VERBENA_DEVICES": "vb_lo"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: int(value) for name, value in (line.split("=") for line in done.stdout.splitlines())}


def test_arming_a_queue_that_is_not_empty_raises_an_event(program: Path) -> None:
    assert ask(program, "arming") == {
        "unarmed": 0,
        "solicited_only_with_an_unsolicited_one": 0,
        "not_empty_and_armed_twice": 1,
        "again": 0,
        "reported_by_the_event_before": 0,
        "a_second_one_came": 1,
        "empty": 0,
        "then_one_came": 1,
        "solicited_only_with_a_solicited_one": 1,
        "solicited_only_with_a_failed_one": 1,
    }


def test_query_qp_writes_the_public_state_only_if_asked_for_it(program: Path) -> None:
    assert ask(program, "query_qp") == {
        "state_after_a_query_of_others": RTS,
        "attribute_after_a_query_of_others": ERR,
        "state_after_a_query_of_the_state": ERR,
    }


def test_query_qp_returns_the_whole_alternate_path_and_a_wrong_one_is_refused(program: Path) -> None:
    assert ask(program, "alternate_path") == {
        "alt_port_num": 1,
        "alt_timeout": 9,
        "wrong_port": errno.EINVAL,
        "wrong_timeout": errno.EINVAL,
        "wrong_gid": errno.EINVAL,
    }


def test_query_qp_returns_packet_numbers_of_24_bits(program: Path) -> None:
    assert ask(program, "packet_numbers") == {"received": 5, "sent": 5}


def test_a_receive_of_4_gib_in_two_segments_has_room_for_a_message(program: Path) -> None:
    """The sum of the lengths wrapped to 0, and both ends got an error."""
    assert ask(program, "long_receive") == {"receive": SUCCESS, "send": SUCCESS}


def test_a_device_list_of_an_exit_handler_is_no_freed_memory(program: Path) -> None:
    """The list was made from an object of the main thread, which ends before exit handlers run."""
    assert ask(program, "at_exit") == {"devices": 1, "name_is_right": 1}


def test_buffers_of_rdma_core_65_are_ordinary_memory(program: Path) -> None:
    assert ask(program, "buffers") == {
        "allocated": 1,
        "page_aligned": 1,
        "registered": 1,
        "part_registered": 1,
        "beyond_its_end": errno.EINVAL,
        "before_its_start": errno.EINVAL,
        "of_another_domain": errno.EINVAL,
        "exported": errno.ENODATA,
        "reg_mr_ex": 1,
        "reg_mr_ex_of_a_dmabuf": errno.EOPNOTSUPP,
        "reg_mr_ex_of_nothing": errno.EINVAL,
    }


def test_atomics_are_those_of_the_cpu_and_programs_find_several_vectors(program: Path) -> None:
    assert ask(program, "device") == {
        "atomics_with_the_cpu": 1,
        "two_vectors": 1,
        "vector_too_high": errno.EINVAL,
    }


def test_a_parent_domain_with_an_unknown_option_is_not_supported(program: Path) -> None:
    assert ask(program, "parent_domains") == {
        "unknown_mask": errno.EOPNOTSUPP,
        "unprotected_memory": 1,
        "allocators_are_not_called": 1,
        "no_domain": errno.EINVAL,
    }


def test_a_shared_receive_queue_with_an_unknown_option_is_not_supported(program: Path) -> None:
    assert ask(program, "shared_receives") == {
        "unknown_mask": errno.EOPNOTSUPP,
        "limit_is_off_after_it_was_reached": 1,
    }


def test_a_bind_of_no_bytes_does_not_unbind_a_type_2_window(program: Path) -> None:
    assert ask(program, "windows") == {"bind": SUCCESS, "bind_of_no_bytes": MW_BIND_ERR}
