# SPDX-License-Identifier: Apache-2.0
"""Clients of echo_server that connect by rdma_cm, where that differs from connecting over TCP.

test_echo_programs.py tests the common behaviour of both.
"""

from echo import HOST, check_good, serve
from programs import Programs

CLIENTS = ("performance_test", "--connect", "rdmacm")


def test_one_port_serves_clients_of_rdma_cm_and_of_tcp_in_turn(programs: Programs) -> None:
    server, where = serve(programs)
    for _ in range(3):
        check_good(programs.run(*CLIENTS, "-c", 20, "-n", 5, "-t", 0, "-s", where), 20)
        check_good(programs.run("performance_test", "-c", 20, "-n", 5, "-t", 0, "-s", where), 20)
    ran = server.end()
    assert ran.status == 0 and "600 messages echoed, 0 lost, 0 handshakes failed" in ran.out, ran


def test_logical_clients_connect_by_rdma_cm(programs: Programs) -> None:
    ran = programs.run(*CLIENTS, "-c", 200, "-n", 5, "-t", 0, "--qps", 4)
    check_good(ran, 200)
    assert "server: 200 different logical clients on 4 connections" in ran.out, ran


def test_an_unreachable_address_is_reported(programs: Programs) -> None:
    ran = programs.run(*CLIENTS, "-c", 1, "-n", 1, "-s", "192.0.2.1:7471")
    assert ran.status == 1 and "192.0.2.1" in ran.err, ran


def test_another_authority_is_not_trusted(programs: Programs) -> None:
    for name in ("one", "other"):
        assert programs.run("verbena", "certs", "--dir", name, "--host", HOST).status == 0

    def trust(name: str, who: str) -> list[str]:
        return ["--ca", f"{name}/ca.pem", "--cert", f"{name}/{who}.pem", "--key", f"{name}/{who}.key"]

    _, where = serve(programs, *trust("one", "server"))
    check_good(programs.run(*CLIENTS, "-c", 2, "-n", 1, "-s", where, *trust("one", "client")), 2)
    ran = programs.run(*CLIENTS, "-c", 1, "-n", 1, "-s", where, *trust("other", "client"))
    assert ran.status == 1 and "1 connect" in ran.out, ran


def test_tcp_has_no_queue_pairs_to_connect(programs: Programs) -> None:
    ran = programs.run(*CLIENTS, "-c", 1, "--transport", "tcp")
    assert ran.status == 2 and "--transport tcp" in ran.err, ran
