# SPDX-License-Identifier: Apache-2.0
"""Batches of operations by the C library: kv_submit(), kv_wait(), kv_fd() and kv_mget()."""

from pathlib import Path

import pytest
from programs import ROOT, Programs
from test_kv import build_c, serve


def build(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    return build_c(Programs(tmp_path_factory.mktemp(name)), ROOT / "tests" / "kv" / f"{name}.c")


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory, "batches")


@pytest.fixture(scope="module")
def outstanding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory, "outstanding")


@pytest.mark.parametrize(
    ("transport", "protocol"), [("rdma", "auto"), ("rdma", "eager"), ("rdma", "rndv"), ("tcp", "auto")]
)
def test_each_op_of_a_batch_has_its_own_result(
    programs: Programs, batches: Path, transport: str, protocol: str
) -> None:
    _, where = serve(programs)
    ran = programs.run(batches, where, transport, protocol)
    assert ran.status == 0 and ran.out == "all good\n", ran


def test_a_batch_is_divided_among_the_servers_of_its_keys(programs: Programs, batches: Path) -> None:
    where = ",".join(serve(programs)[1] for _ in range(3))
    ran = programs.run(batches, where, "rdma", "auto")
    assert ran.status == 0 and ran.out == "all good\n", ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
@pytest.mark.parametrize("fate", ["stopped", "killed", "lost"])
def test_ops_under_way_at_a_server_that_hangs_or_dies_fail_in_time(
    programs: Programs, outstanding: Path, transport: str, fate: str
) -> None:
    server, where = serve(programs)
    ran = programs.run(outstanding, where, server.pid, transport, fate)
    assert ran.status == 0 and ran.out == "all good\n", ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_threads_keep_to_lanes_and_do_not_wait_for_those_of_others(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory, transport: str
) -> None:
    server, where = serve(programs)
    ran = programs.run(build(tmp_path_factory, "lanes"), where, server.pid, transport)
    assert ran.status == 0 and ran.out == "all good\n", ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_an_asynchronous_set_after_a_pause_longer_than_the_timeout_does_not_time_out(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory, transport: str
) -> None:
    _, where = serve(programs)
    ran = programs.run(build(tmp_path_factory, "pause"), where, transport)
    assert ran.status == 0 and ran.out == "all good\n", ran
