# SPDX-License-Identifier: Apache-2.0
"""The NIC prints one line on standard error when an action of the user cannot work: another user
has the UDP port, the peer's host has no NIC, or the peer does not answer.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ADDRESSES, BUILD, NamespacePair, Program, Programs, wait_until

ABSENT = "10.77.0.99"  # no host of the two namespaces has this address
UNROUTED = "10.99.0.1"  # there is no route to this address
IPV6 = ("fd77:1::1", "fd77:1::2")  # addresses of the two namespaces, besides ADDRESSES
PORT = 7475
NO_NIC = r"host {} has no NIC on UDP port 4791: start the program there with 'verbena run', or load rdma_rxe"
HOLDER = """
import socket, sys
held = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
held.bind(("::", 4791))
print("held", flush=True)
sys.stdin.read()
"""


def build(folder: Path, name: str, *libraries: str) -> Path:
    source = Path(__file__).with_name(f"{name}.c")
    built = folder / name
    subprocess.run(["gcc", "-O1", "-Wall", source, "-o", built, *libraries], check=True, timeout=60)
    return built


@pytest.fixture(scope="module")
def towards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("messages"), "towards", "-libverbs")


@pytest.fixture(scope="module")
def reconnect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("messages"), "reconnect", "-lrdmacm", "-libverbs")


@pytest.fixture(scope="module")
def wire(two_hosts: NamespacePair) -> NamespacePair:
    """The two namespaces, with IPv6 addresses too."""
    for side in (0, 1):
        two_hosts.ip(side, f"address replace {IPV6[side]}/64 dev wire{side} nodad")
    return two_hosts


def on_nic(programs: Programs, hosts: NamespacePair, side: int, *command: object) -> Program:
    words = [BUILD / "verbena", "run", "--", *command]
    return programs.start(*words, within=lambda inner: hosts.inside(side, inner))


def send_to(programs: Programs, hosts: NamespacePair, towards: Path, address: str) -> Program:
    return on_nic(programs, hosts, 0, towards, "vb_wire0", address)


def one_error(text: str) -> str:
    lines = text.splitlines()
    assert sum(line.startswith("verbena: error: ") for line in lines) == 1, text
    return next(line for line in lines if line.startswith("verbena: error: "))


BOTH_FAMILIES = pytest.mark.parametrize("address", [ADDRESSES[1], IPV6[1]], ids=["IPv4", "IPv6"])


@BOTH_FAMILIES
def test_a_host_without_a_nic_is_named(programs: Programs, wire: NamespacePair, towards: Path, address: str) -> None:
    ran = send_to(programs, wire, towards, address).finish()
    assert ran.status == 0 and "retry" in ran.out, ran
    assert re.search(NO_NIC.format(address), one_error(ran.err)), ran


@BOTH_FAMILIES
def test_a_connection_to_a_host_without_a_nic_names_it_and_a_later_one_works(
    programs: Programs, wire: NamespacePair, reconnect: Path, address: str
) -> None:
    client = on_nic(programs, wire, 0, reconnect, address, PORT)
    wait_until(lambda: "REJECTED" in client.out, "the first connection fails", alive=client)
    assert re.search(NO_NIC.format(address), one_error(client.err)), client.err
    server = on_nic(programs, wire, 1, "rping", "-s", "-a", address, "-p", PORT)
    ran = client.finish()
    server.kill()
    assert ran.status == 0 and ran.out.endswith("RDMA_CM_EVENT_ESTABLISHED\n"), ran


def test_a_peer_that_does_not_answer_is_named(programs: Programs, wire: NamespacePair, towards: Path) -> None:
    """The retries end before the kernel knows that no host answers ARP."""
    ran = send_to(programs, wire, towards, ABSENT).finish()
    assert ran.status == 0 and "retry" in ran.out, ran
    assert re.search(rf"{ABSENT} does not answer .*0x1234.*has no NIC .*firewall", one_error(ran.err)), ran


def test_a_host_without_a_route_is_named(programs: Programs, wire: NamespacePair, towards: Path) -> None:
    ran = send_to(programs, wire, towards, UNROUTED).finish()
    assert ran.status == 0 and "retry" in ran.out, ran
    assert f"host {UNROUTED} cannot be reached: Network is unreachable" in one_error(ran.err), ran


def test_an_address_that_no_host_has_is_named(programs: Programs, wire: NamespacePair, reconnect: Path) -> None:
    ran = on_nic(programs, wire, 0, reconnect, ABSENT, PORT).finish()
    assert ran.status == 0 and ran.out == "RDMA_CM_EVENT_ADDR_ERROR\n", ran
    assert f"host {ABSENT} cannot be reached: no host of the local network" in one_error(ran.err), ran


def test_a_host_without_an_interface_that_is_up_is_told_so(programs: Programs) -> None:
    command = [BUILD / "verbena", "run", "--", "ibv_devinfo", "-l"]
    ran = programs.start(*command, within=lambda inner: ["unshare", "--map-root-user", "--net", *inner]).finish()
    # The program adds a line of its own.
    assert "verbena: error: there is no device, because no network interface is up" in ran.err, ran


def test_forged_icmp_messages_end_no_connection(programs: Programs, wire: NamespacePair) -> None:
    """An ICMP message explains a failure that was found otherwise; it causes none."""
    if os.geteuid() != 0:
        pytest.skip("only root may send forged ICMP messages")
    command = ["ibv_rc_pingpong", "-d", "vb_wire{}", "-g", "1", "-s", "65536", "-n", "2000", "-p", str(PORT)]
    forger = programs.start(
        sys.executable,
        Path(__file__).with_name("forged_icmp.py"),
        *ADDRESSES,
        within=lambda inner: wire.inside(1, inner),
    )
    wait_until(lambda: "round" in forger.out, "every port got a forged message", alive=forger)
    server = on_nic(programs, wire, 1, *(word.format(1) for word in command))
    wait_until(lambda: listens(wire, PORT), "the server listens", alive=server)
    client = on_nic(programs, wire, 0, *(word.format(0) for word in command), ADDRESSES[1])
    for ran in (client.finish(60), server.finish()):
        assert ran.status == 0 and "2000 iters" in ran.out and ran.err == "", ran
    assert forger.running, forger.err
    forger.kill()


def listens(hosts: NamespacePair, port: int) -> bool:
    tables = [Path(f"/proc/{hosts.holder(1)}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    return any(f":{port:04X} " in line and " 0A " in line for table in tables for line in table.splitlines())


def test_the_user_who_has_the_port_is_named(programs: Programs, two_hosts: NamespacePair, towards: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may start a program of another user")
    as_nobody = ["/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    holder = programs.start(
        *as_nobody,
        "/usr/bin/python3",
        "-c",
        HOLDER,
        within=lambda words: two_hosts.inside(0, words),
        stdin=subprocess.PIPE,
    )
    wait_until(lambda: "held" in holder.out, "the other user has the port", alive=holder)
    ran = send_to(programs, two_hosts, towards, ADDRESSES[1]).finish()
    holder.kill()
    assert ran.status == 1 and "RTR: Address already in use" in ran.err, ran
    message = one_error(ran.err)
    assert re.search(
        r"user id 65534 has UDP port 4791; .*VERBENA_PEERS=host.*; otherwise stop that program", message
    ), ran
