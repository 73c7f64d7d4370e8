# SPDX-License-Identifier: Apache-2.0
"""Interfaces that change while a program has their device open: the port, the GID table and the
asynchronous events follow.

Each test has two network namespaces of its own. A node there sleeps on the descriptor of its
asynchronous events until the change arrives.
"""

import subprocess

import pytest
from conftest import Node, Nodes, connect, started
from namespaces import ADDRESSES, INTERFACES, NamespacePair

WIRE = INTERFACES[0]
OWN = f"0=::ffff:{ADDRESSES[0]}"
LIMIT_MS = 20_000
NO_EVENT_MS = 300


@pytest.fixture
def node(hosts: NamespacePair, nodes: Nodes) -> Node:
    return started(hosts, nodes, 0)


def event(node: Node) -> str:
    return node.ask("event", LIMIT_MS)[0]


def no_event(node: Node) -> bool:
    return node.refusal("event", NO_EVENT_MS) == "ETIMEDOUT"


def test_a_link_that_goes_down_and_comes_up(hosts: NamespacePair, node: Node) -> None:
    assert node.ask("port") == ["ACTIVE", "LINK_UP", "1024"]
    hosts.ip(0, f"link set {WIRE} down")
    assert event(node) == "PORT_ERR"
    assert node.ask("port") == ["DOWN", "DISABLED", "1024"]
    assert node.ask("gids") == [OWN], "the IPv4 address stays, as on hardware"
    assert node.ask("devices") == [f"vb_{WIRE}", "vb_lo"], "no other device works now"
    hosts.ip(0, f"link set {WIRE} up")
    assert event(node) == "PORT_ACTIVE"
    assert node.ask("port") == ["ACTIVE", "LINK_UP", "1024"]
    assert node.ask("devices") == [f"vb_{WIRE}"]


def test_each_end_of_the_link_is_counted(hosts: NamespacePair, node: Node) -> None:
    assert node.ask("counter", "link_downed") == ["0"]
    for times in (1, 2):
        hosts.ip(0, f"link set {WIRE} down")
        assert event(node) == "PORT_ERR"
        hosts.ip(0, f"link set {WIRE} up")
        assert event(node) == "PORT_ACTIVE"
        assert node.ask("counter", "link_downed") == [str(times)]


def test_a_peer_that_pulls_the_cable(hosts: NamespacePair, node: Node) -> None:
    hosts.ip(1, f"link set {INTERFACES[1]} down")
    assert event(node) == "PORT_ERR"
    assert node.ask("port") == ["DOWN", "POLLING", "1024"]
    hosts.ip(1, f"link set {INTERFACES[1]} up")
    assert event(node) == "PORT_ACTIVE"


def test_a_link_that_is_down_for_a_moment_raises_both_events(hosts: NamespacePair, node: Node) -> None:
    both = f"ip link set {WIRE} down && ip link set {WIRE} up"
    subprocess.run(hosts.inside(0, ["sh", "-c", both]), check=True)
    assert [event(node), event(node)] == ["PORT_ERR", "PORT_ACTIVE"]
    assert node.ask("port")[0] == "ACTIVE"


def test_addresses_come_and_go_and_the_others_keep_their_index(hosts: NamespacePair, node: Node) -> None:
    assert node.ask("gids") == [OWN]
    hosts.ip(0, f"address add 10.78.0.1/24 dev {WIRE}")
    assert event(node) == "GID_CHANGE"
    assert node.ask("gids") == [OWN, "1=::ffff:10.78.0.1"]
    hosts.ip(0, f"address del {ADDRESSES[0]}/24 dev {WIRE}")
    assert event(node) == "GID_CHANGE"
    assert node.ask("gids") == ["1=::ffff:10.78.0.1"]
    hosts.ip(0, f"address add fd77::1/64 dev {WIRE} nodad")
    assert event(node) == "GID_CHANGE"
    assert node.ask("gids") == ["0=fd77::1", "1=::ffff:10.78.0.1"]


def test_every_open_context_of_the_device_gets_the_event_and_no_other(hosts: NamespacePair, nodes: Nodes) -> None:
    node = started(hosts, nodes, 0, "+vb_lo")
    node.open(f"vb_{WIRE}").open("vb_lo")
    hosts.ip(0, f"link set {WIRE} down")
    assert no_event(node)
    for _ in range(2):
        node.ask("close")
        assert event(node) == "PORT_ERR"
        assert no_event(node)


def test_an_mtu_that_changes_is_reported_without_an_event(hosts: NamespacePair, node: Node) -> None:
    hosts.ip(0, f"link set {WIRE} mtu 9000")
    assert no_event(node)
    assert node.ask("port") == ["ACTIVE", "LINK_UP", "4096"]


def test_a_device_is_gone_with_its_interface(hosts: NamespacePair, node: Node) -> None:
    hosts.ip(0, f"link del {WIRE}")
    assert [event(node), event(node)] == ["PORT_ERR", "DEVICE_FATAL"]
    assert node.ask("port") == ["DOWN", "DISABLED", "1024"]
    assert node.ask("gids") == []
    assert node.ask("devices") == ["vb_lo"]
    # An interface of the same name is another device.
    hosts.ip(0, f"link add {WIRE} type veth peer name other")
    hosts.ip(0, "link set other up")
    hosts.ip(0, f"link set {WIRE} up")
    hosts.ip(0, f"address add {ADDRESSES[0]}/24 dev {WIRE}")
    assert f"vb_{WIRE}" in node.ask("devices")
    node.open(f"vb_{WIRE}")
    assert node.ask("port")[0] == "ACTIVE"
    node.ask("close")
    assert node.ask("port")[0] == "DOWN"
    assert no_event(node)
    node.ask("close")


def test_an_address_that_is_gone_refuses_connections(hosts: NamespacePair, node: Node) -> None:
    hosts.ip(0, f"address add 10.78.0.1/24 dev {WIRE}")
    assert event(node) == "GID_CHANGE"
    hosts.ip(0, f"address del {ADDRESSES[0]}/24 dev {WIRE}")
    assert event(node) == "GID_CHANGE"
    index, qpn = node.qp()
    assert node.refusal("connect", index, qpn, 0, "::ffff:10.78.0.1") == "EINVAL"
    node.ask("connect", index, qpn, 1, "::ffff:10.78.0.1")


def test_a_connection_over_a_link_that_is_down_for_a_moment_goes_on(hosts: NamespacePair, nodes: Nodes) -> None:
    a, b = started(hosts, nodes, 0), started(hosts, nodes, 1)
    (at_a, qpn_a), (at_b, qpn_b) = a.qp(), b.qp()
    a.ask("connect", at_a, qpn_b, 0, f"::ffff:{ADDRESSES[1]}")
    b.ask("connect", at_b, qpn_a, 0, f"::ffff:{ADDRESSES[0]}")
    b.ask("receive", at_b, 20)
    a.ask("send", at_a, 10, 64)
    assert a.poll(10).counts == {"SUCCESS": 10}
    hosts.ip(0, f"link set {WIRE} down")
    assert event(a) == "PORT_ERR"
    a.ask("send", at_a, 10, 64)
    hosts.ip(0, f"link set {WIRE} up")
    assert event(a) == "PORT_ACTIVE"
    assert a.poll(10).counts == {"SUCCESS": 10}
    assert b.poll(20).counts == {"RECEIVED": 20}


def test_a_connection_over_a_link_that_stays_down_runs_out_of_retries(hosts: NamespacePair, nodes: Nodes) -> None:
    a, b = started(hosts, nodes, 0), started(hosts, nodes, 1)
    (at_a, qpn_a), (at_b, qpn_b) = a.qp(), b.qp()
    a.ask("connect", at_a, qpn_b, 0, f"::ffff:{ADDRESSES[1]}")
    b.ask("connect", at_b, qpn_a, 0, f"::ffff:{ADDRESSES[0]}")
    hosts.ip(0, f"link set {WIRE} down")
    assert event(a) == "PORT_ERR"
    a.ask("send", at_a, 1, 64)
    assert a.poll(1, LIMIT_MS).counts == {"RETRY_EXC_ERR": 1}


def test_a_node_that_waits_for_completions_sees_the_event(hosts: NamespacePair, nodes: Nodes) -> None:
    """The thread that drives the engine in a verb is not the one that watches the interfaces."""
    node = started(hosts, nodes, 0)
    node.send_command("wait", 1, 1000)
    hosts.ip(0, f"link set {WIRE} down")
    assert node.read_answer()[1:] == []
    assert event(node) == "PORT_ERR"


def test_a_node_that_polls_sees_the_event(hosts: NamespacePair, nodes: Nodes) -> None:
    node = started(hosts, nodes, 0)
    node.send_command("poll", 1, 1000)
    hosts.ip(0, f"link set {WIRE} down")
    assert node.read_answer()[1:] == []
    assert event(node) == "PORT_ERR"


def test_a_forked_child_watches_for_itself(hosts: NamespacePair, nodes: Nodes, node: Node) -> None:
    child = nodes.fork(node)
    child.open(f"vb_{WIRE}")
    hosts.ip(0, f"link set {WIRE} down")
    assert event(child) == "PORT_ERR"
    assert event(node) == "PORT_ERR"


def test_a_pair_on_one_host_does_not_need_the_link(hosts: NamespacePair, nodes: Nodes) -> None:
    a, b = started(hosts, nodes, 0), started(hosts, nodes, 0)
    at_a, at_b = connect(a, b)
    hosts.ip(0, f"link set {WIRE} down")
    assert event(a) == "PORT_ERR"
    b.ask("receive", at_b, 1)
    a.ask("send", at_a, 1, 64)
    assert a.poll(1).counts == {"SUCCESS": 1}
