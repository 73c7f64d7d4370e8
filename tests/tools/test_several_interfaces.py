# SPDX-License-Identifier: Apache-2.0
"""Servers and clients on hosts with several network interfaces, each of which is an RDMA device."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from namespaces import INTERFACES as WIRES
from programs import ADDRESSES, BUILD, NamespacePair, NotPermitted, Program, Programs, Ran, wait_until
from test_kv import lines

PORT = 7474
# The second wire: its interfaces and addresses.
INTERFACES = ("second0", "second1")
SECOND = ("10.78.0.1", "10.78.0.2")


@pytest.fixture
def hosts() -> Iterator[NamespacePair]:
    """Two hosts with two wires. The second host has no route to the first wire of the first one."""
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    pair.ip(0, f"link add {INTERFACES[0]} type veth peer name {INTERFACES[1]} netns {pair.holder(1)}")
    for side in (0, 1):
        pair.ip(side, f"link set {INTERFACES[side]} up")
        pair.ip(side, f"address add {SECOND[side]}/24 dev {INTERFACES[side]}")
    yield pair
    pair.close()


def on(hosts: NamespacePair, side: int) -> Callable[[list[str]], list[str]]:
    return lambda words: hosts.inside(side, words)


def serve(programs: Programs, hosts: NamespacePair, program: str, address: str) -> Program:
    server = programs.start(program, "--listen", address, "--port", PORT, within=on(hosts, 0))
    wait_until(lambda: "listening at" in server.out, f"{program} listens", alive=server)
    return server


def measure(programs: Programs, hosts: NamespacePair, side: int, address: str) -> Ran:
    words = ("performance_test", "-c", 1, "-n", 2, "-s", f"{address}:{PORT}")
    return programs.run(*words, within=on(hosts, side))


def store(programs: Programs, hosts: NamespacePair, side: int, address: str) -> Ran:
    script = lines(programs, "commands.txt", "SET key value", "GET key", "DEL key")
    return programs.run("kv_client", f"{address}:{PORT}", script, "--transport", "rdma", within=on(hosts, side))


def test_a_server_at_all_addresses_serves_a_client_of_its_host_and_one_of_another_at_once(
    programs: Programs, hosts: NamespacePair
) -> None:
    server = serve(programs, hosts, "echo_server", "0.0.0.0")
    words = ("performance_test", "-c", 1, "-n", 1_000_000, "-s", f"127.0.0.1:{PORT}")
    local = programs.start(*words, within=on(hosts, 0))
    wait_until(lambda: "1 of 1 clients are connected" in local.out, "the local client is connected", alive=local)
    ran = measure(programs, hosts, 1, ADDRESSES[0])
    assert ran.status == 0 and f"path: rc over vb_{WIRES[1]} " in ran.out, ran
    assert local.running
    ran = measure(programs, hosts, 0, "127.0.0.1")
    assert ran.status == 0 and "path: rc over vb_lo " in ran.out, ran
    local.end()
    ran = server.end()
    assert ran.status == 0 and "echo_server: at most 2 clients were connected at a time" in ran.out, ran


def test_an_echo_server_at_all_addresses_uses_the_device_at_which_a_client_arrives(
    programs: Programs, hosts: NamespacePair
) -> None:
    server = serve(programs, hosts, "echo_server", "0.0.0.0")
    assert f"rc over vb_{WIRES[0]} " in server.out, server.out
    ran = measure(programs, hosts, 1, ADDRESSES[0])
    assert ran.status == 0, ran
    # Now the client's host reaches the second address only.
    hosts.ip(1, f"link set {WIRES[1]} down")
    ran = measure(programs, hosts, 1, SECOND[0])
    assert ran.status == 0 and f"path: rc over vb_{INTERFACES[1]} " in ran.out, ran
    ran = server.end()
    assert ran.status == 0 and "0 lost" in ran.out, ran


def test_a_store_at_all_addresses_serves_clients_of_both_hosts(programs: Programs, hosts: NamespacePair) -> None:
    serve(programs, hosts, "kv_server", "0.0.0.0")
    for side, address in ((0, "127.0.0.1"), (0, ADDRESSES[0]), (1, ADDRESSES[0])):
        ran = store(programs, hosts, side, address)
        assert ran.status == 0 and ran.out == "value\n", ran


def test_a_store_at_all_addresses_uses_the_device_at_which_a_client_arrives(
    programs: Programs, hosts: NamespacePair
) -> None:
    options = ("--listen", "0.0.0.0", "--port", PORT, "--one-sided", "1M", "--metrics-json", "m.json")
    server = programs.start("kv_server", *options, within=on(hosts, 0))
    wait_until(lambda: "listening at" in server.out, "kv_server listens", alive=server)
    large = "x" * 100_000
    script = lines(programs, "commands.txt", "SET key value", f"SET large {large}", *["GET key", "GET large"] * 2)
    for address in (ADDRESSES[0], SECOND[0]):
        words = (f"{address}:{PORT}", script, "--transport", "rdma", "--one-sided", "--stats")
        ran = programs.run("kv_client", *words, within=on(hosts, 1))
        assert ran.status == 0 and ran.out == f"value\n{large}\n" * 2, ran
        assert re.search(r"[1-9]\d* one-sided", ran.err), ran.err
        # Now the client's host reaches the second address only.
        hosts.ip(1, f"link set {WIRES[1]} down")
    assert server.end().status == 0
    metrics = json.loads((programs.folder / "m.json").read_text())
    devices = {each["labels"]["device"] for each in metrics["verbena_device_info"]["samples"]}
    opened = {each["labels"]["event"]: each["value"] for each in metrics["verbena_channels_total"]["samples"]}
    assert len(devices) == 2 and opened["opened"] == 2, metrics


def test_an_rpc_server_at_all_addresses_uses_the_device_at_which_a_client_arrives(hosts: NamespacePair) -> None:
    server = subprocess.Popen(
        hosts.inside(0, [str(BUILD / "bench" / "rpc_test_server"), "1", "rdma-any"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(server.stdout.readline())
        for address in (ADDRESSES[0], SECOND[0]):
            words = [str(BUILD / "verbena"), "run", "--", str(BUILD / "bench" / "rpc_test_client")]
            ran = subprocess.run(
                hosts.inside(1, [*words, f"{address}:{port}", "call", "10", "rdma"]),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ran.stdout == "ok hello\nok again\n", (address, ran)
            # Now the client's host reaches the second address only.
            hosts.ip(1, f"link set {WIRES[1]} down")
    finally:
        server.stdin.close()
        server.wait(timeout=20)


@pytest.mark.parametrize("program", ["echo_server", "kv_server"])
def test_a_server_at_one_address_uses_the_device_of_that_address(
    programs: Programs, hosts: NamespacePair, program: str
) -> None:
    server = serve(programs, hosts, program, SECOND[0])
    assert re.search(rf"rc over vb_{INTERFACES[0]} ", server.out), server.out
    # The client cannot reach the first device of the server's host, and its own first device is
    # not the one that leads to the server.
    hosts.ip(1, "route del 10.77.0.0/24")
    if program == "kv_server":
        ran = store(programs, hosts, 1, SECOND[0])
        assert ran.status == 0 and ran.out == "value\n", ran
    else:
        ran = measure(programs, hosts, 1, SECOND[0])
        assert ran.status == 0 and f"path: rc over vb_{INTERFACES[1]} " in ran.out, ran


def test_a_device_that_the_user_names_is_used_whatever_the_address(programs: Programs, hosts: NamespacePair) -> None:
    words = ("--listen", SECOND[0], "--port", PORT, "--device", "vb_wire0")
    server = programs.start("kv_server", *words, within=on(hosts, 0))
    wait_until(lambda: "listening at" in server.out, "kv_server listens", alive=server)
    assert "rc over vb_wire0 " in server.out, server.out
