# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs with the limits of a device: those that heed them work, the others fail as
on the device.
"""

import re

import pytest
from profiled import PairRan, Profiled, Ran, free_port, printed, table

PROFILES = ["cx6", "cx7", "e810", "bnxt", "efa", "rxe", "siw", "qedr", "floor", "verbena"]
# Those with RC queue pairs.
RC = [name for name in PROFILES if name != "efa"]


def figure(ran: Ran, name: str) -> str:
    found = re.search(rf"^\s*{name}:\s+(\S+)", ran.output, re.MULTILINE)
    assert found, ran
    return found[1]


@pytest.mark.parametrize("profile", PROFILES)
def test_ibv_devinfo_prints_the_figures_of_the_table(profiled: Profiled, profile: str) -> None:
    ran = profiled.run(profile, ["ibv_devinfo", "-v", "-d", "vb_lo"])
    assert ran.status == 0, ran
    cells = {row: columns[profile] for row, columns in table().items()}
    for name in ("max_sge_rd", "max_qp_wr", "max_qp_rd_atom", "max_qp_init_rd_atom"):
        if cells[name] != "?":
            assert figure(ran, name) == cells[name], name
    if cells["max_cqe"] != "?":
        assert int(figure(ran, "max_cqe")) == min(int(cells["max_cqe"]), 1 << 22)
    if cells["max_send_sge"] != "?":
        assert int(figure(ran, "max_sge")) == int(cells["max_send_sge"])
    atomics = {"none": "ATOMIC_NONE", "HCA": "ATOMIC_HCA", "global": "ATOMIC_GLOB"}
    assert figure(ran, "atomic_cap") == atomics[cells["atomics"]]
    assert int(figure(ran, "vendor_id"), 16) == int(cells["vendor_id"], 16)
    assert figure(ran, "vendor_part_id") == cells["vendor_part_id"]
    assert (figure(ran, "max_srq") != "0") == (cells["shared receive queues"] == "yes")
    assert (figure(ran, "max_mw") != "0") == (cells["memory windows"] == "yes")
    assert ("ODP_SUPPORT" in ran.output) == (cells["on-demand paging"] == "yes")


def test_the_port_reports_the_largest_message_of_the_device(profiled: Profiled) -> None:
    def port_of(profile: str) -> dict[str, int]:
        ran = profiled.run(profile, ["ibv_devinfo", "-v", "-d", "vb_lo"])
        mtu = re.search(r"active_mtu:\s+(\d+)", ran.output)
        assert mtu
        return {"mtu": int(mtu[1]), "message": int(figure(ran, "max_msg_sz"), 16)}

    assert port_of("cx6")["message"] == 1 << 30
    assert port_of("rxe")["message"] == 1 << 23
    efa = port_of("efa")
    assert efa["message"] == efa["mtu"]


def test_netlink_reports_the_features_of_the_device(profiled: Profiled) -> None:
    for profile, windows in (("e810", True), ("siw", False)):
        ran = profiled.run(profile, ["rdma", "-d", "dev", "show", "vb_lo"])
        assert ran.status == 0 and "RC_RNR_NAK_GEN" in ran.output, ran
        assert ("MEM_WINDOW" in ran.output) == windows, ran


@pytest.mark.parametrize("profile", RC)
def test_rc_pingpong_works_with_each_profile_that_has_rc(profiled: Profiled, profile: str) -> None:
    profiled.pair(profile, ["ibv_rc_pingpong", "-d", "vb_lo", "-g", "0", "-n", "50"]).check()


def test_rc_pingpong_fails_on_efa(profiled: Profiled) -> None:
    ran = profiled.run("efa", ["ibv_rc_pingpong", "-d", "vb_lo", "-g", "0"])
    assert ran.status != 0
    assert "the device has no RC queue pairs (profile efa)" in ran.output


def test_ud_pingpong_works_on_efa(profiled: Profiled) -> None:
    profiled.pair("efa", ["ibv_ud_pingpong", "-d", "vb_lo", "-g", "0", "-n", "50", "-s", "512"]).check()


def perftest(profiled: Profiled, profile: str, *words: str) -> PairRan:
    return profiled.pair(profile, [words[0], "-d", "vb_lo", "-F", "-x", "0", "-n", "100", *words[1:]])


@pytest.mark.parametrize("words", [["ib_send_lat", "-I", "220"], ["ib_send_lat"], ["ib_write_lat"]])
def test_perftest_dies_on_e810_when_it_asks_for_220_bytes_inline(profiled: Profiled, words: list[str]) -> None:
    # linux-rdma/perftest#139. Without -I perftest asks for as many bytes or more.
    refused = perftest(profiled, "e810", *words).client
    assert refused.status != 0
    assert re.search(r"ibv_create_qp: max_inline_data 2\d\d > 101 \(profile e810\)", refused.output), refused
    assert "Unable to create QP" in refused.output, refused


def test_perftest_works_on_e810_with_100_bytes_inline(profiled: Profiled) -> None:
    perftest(profiled, "e810", "ib_send_bw", "-I", "100", "-s", "64").check()


def test_perftest_works_on_cx6_with_220_bytes_inline(profiled: Profiled) -> None:
    perftest(profiled, "cx6", "ib_send_lat", "-I", "220").check()


def test_atomics_fail_on_e810_and_work_on_rxe(profiled: Profiled) -> None:
    perftest(profiled, "rxe", "ib_atomic_lat").check()
    refused = perftest(profiled, "e810", "ib_atomic_lat").client
    assert refused.status != 0
    assert "ibv_post_send: the device has no atomics (profile e810)" in refused.output


@pytest.mark.parametrize("profile", ["siw", "floor", "cx6"])
def test_rping_works_over_rdma_cm(profiled: Profiled, profile: str) -> None:
    words = ["rping", "-a", "127.0.0.1", "-p", str(free_port()), "-C", "5", "-v"]
    profiled.runner.start(profiled.words(profile, [*words, "-s"]))
    ran = profiled.run(profile, [*words, "-c"])
    for _ in range(20):  # the client asks again until the server listens
        if ran.status == 0:
            break
        ran = profiled.run(profile, [*words, "-c"])
    assert ran.status == 0 and "ping data: rdma-ping-4" in ran.output, ran


def test_a_wrong_name_ends_with_status_2_and_a_suggestion() -> None:
    ran = printed("--profile", "e801", "--", "echo", "it ran")
    assert ran.returncode == 2
    assert "there is no profile 'e801' (did you mean 'e810'?)" in ran.stderr
    assert "it ran" not in ran.stdout


def test_a_wrong_variable_keeps_the_nic_from_starting(profiled: Profiled) -> None:
    words = profiled.words("", ["ibv_devinfo", "-v", "-d", "vb_lo"])
    ran = profiled.runner.run(["env", "VERBENA_PROFILE=e801", *words])
    assert "VERBENA_PROFILE: there is no profile 'e801'" in ran.output
    assert ran.status != 0 or "max_qp:" not in ran.output
