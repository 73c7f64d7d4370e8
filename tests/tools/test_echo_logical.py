# SPDX-License-Identifier: Apache-2.0
"""Logical clients of echo_server: many share one connection."""

import time

import pytest
from echo import check_good, serve
from programs import Programs, wait_until


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_logical_clients_share_connections(programs: Programs, transport: str) -> None:
    ran = programs.run("performance_test", "-c", 500, "-n", 10, "-t", 1, "--qps", 4, "--transport", transport)
    check_good(ran, 500)
    assert "server: 500 clients at once, 5000 echoed, 0 lost, 0 refused" in ran.out, ran
    assert "server: 500 different logical clients on 4 connections" in ran.out, ran
    if transport == "rdma":
        assert "; 4 QPs;" in ran.out, ran


@pytest.mark.parametrize("size", [1, 1024, 100_000])
def test_logical_messages_of_1_to_100000_bytes(programs: Programs, size: int) -> None:
    check_good(programs.run("performance_test", "-c", 20, "-n", 10, "-t", 0, "-m", size, "--qps", 2), 20)


def test_a_server_of_logical_clients_serves_one_run_after_the_other(programs: Programs) -> None:
    server, where = serve(programs, "--logical", 100)
    for _ in range(3):
        check_good(programs.run("performance_test", "-c", 150, "-n", 5, "-t", 0, "--qps", 2, "-s", where), 150)
    ran = programs.run("performance_test", "-c", 150, "-n", 1, "--qps", 1, "-s", where)
    assert ran.status == 1 and "50 connect" in ran.out and "admits 100 channels" in ran.err, ran
    ended = server.end()
    assert (
        ended.status == 0 and "at most 150 clients were connected at a time" in ended.out and "0 lost" in ended.out
    ), ended


def test_a_server_of_logical_clients_ends_within_two_seconds(programs: Programs) -> None:
    server, where = serve(programs, "--logical", 100)
    clients = programs.start("performance_test", "-c", 50, "-n", 1_000_000, "-t", 1, "--qps", 3, "-s", where)
    wait_until(lambda: "50 of 50 clients are connected" in clients.out, "the clients are connected", alive=clients)
    begun = time.monotonic()
    ran = server.end()
    assert ran.status == 0 and time.monotonic() - begun < 2, ran
    ended = clients.finish()
    assert ended.status == 1 and "50 lost" in ended.out, ended


def test_a_server_without_logical_channels_reports_that(programs: Programs) -> None:
    _, where = serve(programs)
    ran = programs.run("performance_test", "-c", 10, "-n", 1, "--qps", 2, "-s", where)
    assert ran.status == 1 and "10 connect" in ran.out and "no logical channels" in ran.err, ran


def test_a_server_of_logical_channels_serves_single_clients_too(programs: Programs) -> None:
    _, where = serve(programs, "--logical", 100)
    check_good(programs.run("performance_test", "-c", 5, "-n", 2, "-t", 0, "-s", where), 5)
    check_good(programs.run("performance_test", "-c", 20, "-n", 2, "-t", 0, "--qps", 2, "-s", where), 20)
