# SPDX-License-Identifier: Apache-2.0
"""A program that asks for more than a profile grants is refused, with a sentence that names the
limit and the profile. A program with a fallback works. Without a profile, each is granted what it
asked for.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from profiled import ROOT, Profiled, table

# Row of the table -> the profile of its test, and a part of the sentence. The program asks for one
# more than the profile's figure, or uses the feature.
REFUSED = {
    "types of queue pairs": ("floor", "ibv_create_qp: the device has no UC queue pairs (profile floor)"),
    "max_inline_data": ("floor", "ibv_create_qp: max_inline_data 97 > 96 (profile floor)"),
    "max_send_sge": ("floor", "ibv_create_qp: max_send_sge 5 > 4 (profile floor)"),
    "max_recv_sge": ("floor", "ibv_create_qp: max_recv_sge 5 > 4 (profile floor)"),
    "max_sge_rd": ("siw", "ibv_post_send: num_sge 2 > 1 of a READ, the device's max_sge_rd (profile siw)"),
    "max_qp_wr": ("floor", "ibv_create_qp: max_send_wr 4064 > 4063 (profile floor)"),
    "max_cqe": ("floor", "ibv_create_cq: cqe 32768 > 32767 (profile floor)"),
    "max_qp_rd_atom": ("floor", "ibv_modify_qp: max_dest_rd_atomic 17 > 16 (profile floor)"),
    "max_qp_init_rd_atom": ("floor", "ibv_modify_qp: max_rd_atomic 17 > 16 (profile floor)"),
    "atomics": ("floor", "ibv_post_send: the device has no atomics (profile floor)"),
    "immediate data": ("siw", "ibv_post_send: the device has no SEND with immediate data (profile siw)"),
    "shared receive queues": ("floor", "ibv_create_srq: the device has no shared receive queues (profile floor)"),
    "max_srq_wr": ("rxe", "ibv_create_srq: max_wr 16385 > 16384 (profile rxe)"),
    "max_srq_sge": ("siw", "ibv_create_srq: max_sge 7 > 6 (profile siw)"),
    "memory windows": ("floor", "ibv_alloc_mw: the device has no memory windows (profile floor)"),
    "on-demand paging": ("floor", "ibv_reg_mr: the device has no on-demand paging (profile floor)"),
    "ibv_resize_cq": ("floor", "ibv_resize_cq: the device's provider lacks it (profile floor)"),
    "ibv_create_qp_ex": ("floor", "ibv_create_qp_ex: the device's provider lacks it (profile floor)"),
    "ibv_create_cq_ex": ("floor", "ibv_create_cq_ex: the device's provider lacks it (profile floor)"),
    "a READ needs REMOTE_WRITE": ("siw", "IBV_WC_LOC_PROT_ERR: segment 0 is wrong: "),
}
# Rows that a program reads and does not ask for.
NOT_ASKED = {"vendor_id", "vendor_part_id", "max_msg_sz"}


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = tmp_path_factory.mktemp("profile") / "asks"
    compiler = shutil.which("gcc")
    assert compiler
    source: Path = ROOT / "tests" / "profile" / "asks.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", built, source, "-libverbs"], check=True)
    return str(built)


def amounts(row: str, profile: str) -> list[str]:
    """Return the amount that the program asks for, and the one that it falls back to."""
    cell = table()[row][profile]
    return [str(int(cell) + 1), cell] if cell.isdigit() else ["1", "0"]


def test_each_row_of_the_table_has_a_test() -> None:
    assert set(table()) == REFUSED.keys() | NOT_ASKED


@pytest.mark.parametrize("row", REFUSED)
def test_more_than_the_limit_is_refused(profiled: Profiled, asks: str, row: str) -> None:
    profile, sentence = REFUSED[row]
    ran = profiled.run(profile, [asks, row, *amounts(row, profile)])
    assert ran.status == 1, ran
    assert f"verbena: warn: {sentence}" in ran.output or (row.startswith("a READ") and sentence in ran.output), ran


@pytest.mark.parametrize("row", REFUSED)
def test_a_program_with_a_fallback_works(profiled: Profiled, asks: str, row: str) -> None:
    profile, _ = REFUSED[row]
    ran = profiled.run(profile, [asks, row, *amounts(row, profile), "fallback"])
    assert ran.status == 0 and "fell back to" in ran.output, ran


@pytest.mark.parametrize("row", REFUSED)
def test_without_a_profile_the_same_is_granted(profiled: Profiled, asks: str, row: str) -> None:
    profile, _ = REFUSED[row]
    asked = amounts(row, profile)
    if row in ("max_qp_rd_atom", "max_qp_init_rd_atom"):  # the floor is the NIC's own limit
        asked = [asked[1], asked[1]]
    ran = profiled.run("", [asks, row, *asked])
    assert ran.status == 0 and ran.output.endswith("granted\n"), ran


def test_a_profile_can_grant_more_than_the_nic_does_without_one(profiled: Profiled, asks: str) -> None:
    for profile, row, figure in (
        ("cx6", "max_sge_rd", "30"),
        ("rxe", "max_send_sge", "32"),
        ("e810", "max_qp_init_rd_atom", "255"),
        ("siw", "max_qp_rd_atom", "128"),
    ):
        asked = [asks, row, figure, "1"]
        granted = profiled.run(profile, asked)
        assert granted.status == 0, granted
        assert profiled.run("", asked).status == 1


def test_a_read_of_ibv_wr_post_has_the_same_limit(profiled: Profiled, asks: str) -> None:
    # No device with ibv_wr_post and RC has a lower limit for READs than for other requests.
    asked = [asks, "max_sge_rd of ibv_wr_post", "30", "1"]
    assert profiled.run("cx6", asked).status == 0
    assert profiled.run("", asked).status == 1


def test_e810_has_more_entries_for_narrow_requests_than_it_reports(profiled: Profiled, asks: str) -> None:
    assert table()["max_qp_wr"]["e810"] == "4063"
    assert profiled.run("e810", [asks, "max_qp_wr", "32510", "1"]).status == 0
    refused = profiled.run("e810", [asks, "max_qp_wr", "32511", "1"])
    assert "ibv_create_qp: max_send_wr 32511 > 32510 (profile e810)" in refused.output, refused


def test_the_sentence_is_printed_once_and_at_the_levels_warn_and_info(profiled: Profiled, asks: str) -> None:
    for log, count in (("error", 0), ("warn", 1), ("info", 1)):
        ran = profiled.run("e810", [asks, "max_inline_data", "102", "1"], log)
        assert ran.output.count("max_inline_data 102 > 101 (profile e810)") == count, ran


def test_the_trace_of_the_call_has_the_sentence(profiled: Profiled, asks: str) -> None:
    words = profiled.words("e810", [asks, "max_inline_data", "102", "1"], "error")
    ran = profiled.runner.run([*words[:2], "--trace", *words[2:]])
    assert "ibv_create_qp: max_inline_data 102 > 101 (profile e810)" in ran.output, ran
