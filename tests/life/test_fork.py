# SPDX-License-Identifier: Apache-2.0
"""A process with an open NIC forks (docs/decisions/0012).

The parent continues undisturbed. In the child, inherited objects fail with EIO and can be
destroyed, and the child may open a device of its own.
"""

import signal

from conftest import Node, Nodes, connect, eventually


def test_the_parent_continues_undisturbed(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    at_parent, at_peer = connect(parent, peer)
    peer.ask("receive", at_peer, 100)
    parent.ask("receive", at_parent, 10)
    child = nodes.fork(parent)
    parent.ask("send", at_parent, 90, 8)
    assert parent.poll(90).counts == {"SUCCESS": 90}
    assert peer.poll(90).counts == {"RECEIVED": 90}
    peer.ask("send", at_peer, 5, 8)
    assert parent.wait(5).counts == {"RECEIVED": 5}

    child.signal(signal.SIGKILL)
    parent.ask("send", at_parent, 10, 8)
    assert parent.wait(10).counts == {"SUCCESS": 10}
    peer.ask("send", at_peer, 5, 8)
    assert parent.wait(5).counts == {"RECEIVED": 5}


def test_the_child_gets_eio_from_what_it_inherited_and_touches_nothing(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    at_parent, at_peer = connect(parent, peer)
    datagrams, _ = parent.qp("ud")
    _, to_peer = peer.qp("ud")
    region, address, key = peer.region(4096)
    parent.ask("send", datagrams, 1, 8, to_peer)
    assert parent.poll(1).counts == {"SUCCESS": 1}
    peer.ask("receive", at_peer, 20)

    child = nodes.fork(parent)
    assert child.refusal("send", at_parent, 1, 8) == "EIO"
    assert child.refusal("write", at_parent, 1, 8, address, key) == "EIO"
    assert child.refusal("send", datagrams, 1, 8, to_peer) == "EIO"
    assert child.refusal("receive", at_parent, 1) == "EIO"
    assert child.refusal("poll", 1, 10) == "EIO"
    assert child.refusal("wait", 1, 10) == "EIO"
    assert child.refusal("modify", at_parent, "err") == "EIO"
    assert child.refusal("qp", "rc", 1, 1) == "EIO"
    assert child.refusal("qp", "ud", 1, 1) == "EIO"

    assert peer.poll(1, 20).total == 0
    assert peer.ask("load", region, 0) == ["0"]
    parent.ask("send", at_parent, 20, 8)
    assert parent.poll(20).counts == {"SUCCESS": 20}
    assert peer.poll(20).counts == {"RECEIVED": 20}


def test_the_child_can_destroy_what_it_inherited(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    at_parent, at_peer = connect(parent, peer)
    parent.ask("receive", at_parent, 10)
    parent.ask("send", at_parent, 3, 8)  # outstanding, since the peer has no receive
    child = nodes.fork(parent)
    child.ask("close")
    peer.ask("receive", at_peer, 3)
    assert parent.poll(3).counts == {"SUCCESS": 3}
    peer.ask("send", at_peer, 10, 8)
    assert parent.poll(10).counts == {"RECEIVED": 10}


def test_the_child_may_open_a_device_of_its_own_and_exchange_messages_with_its_parent(
    nodes: Nodes, pair: tuple[Node, Node]
) -> None:
    parent, peer = pair
    old, at_old = connect(parent, peer)
    child = nodes.fork(parent).open()
    for other in (parent, peer):
        at_child, at_other = connect(child, other)
        other.ask("receive", at_other, 10)
        child.ask("receive", at_child, 10)
        child.ask("send", at_child, 10, 8)
        assert child.wait(10).counts == {"SUCCESS": 10}
        assert other.wait(10).counts == {"RECEIVED": 10}
        other.ask("send", at_other, 10, 8)
        assert other.poll(10).counts == {"SUCCESS": 10}
        assert child.poll(10).counts == {"RECEIVED": 10}
    peer.ask("receive", at_old, 1)
    parent.ask("send", old, 1, 8)
    assert parent.poll(1).counts == {"SUCCESS": 1}


def test_a_process_that_has_forked_can_still_be_reached(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    """The child must not keep the names by which other processes find the parent."""
    parent, peer = pair
    connect(parent, peer)
    child = nodes.fork(parent)
    late = nodes.start("late").open()
    at_late, at_parent = connect(late, parent)
    parent.ask("receive", at_parent, 1)
    late.ask("send", at_late, 1, 8)
    assert late.poll(1).counts == {"SUCCESS": 1}
    child.signal(signal.SIGKILL)
    later = nodes.start("later").open()
    connect(later, parent)


def test_the_parents_death_is_seen_although_a_child_lives(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    _, at_peer = connect(parent, peer)
    child = nodes.fork(parent)
    peer.ask("send", at_peer, 1, 8)
    nodes.kill(parent)
    done = peer.wait(1)
    assert done.counts == {"RETRY_EXC_ERR": 1}
    assert child.refusal("poll", 1, 10) == "EIO"


def test_the_childs_end_does_not_affect_the_peers_of_its_parent(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    at_parent, at_peer = connect(parent, peer)
    before = peer.descriptors()
    child = nodes.fork(parent).open()
    _, to_child = connect(child, peer)
    peer.ask("send", to_child, 1, 8)
    child.signal(signal.SIGKILL)
    assert peer.poll(1).counts == {"RETRY_EXC_ERR": 1}
    assert eventually(lambda: peer.descriptors() == before)
    parent.ask("receive", at_parent, 1)
    peer.ask("send", at_peer, 1, 8)
    assert peer.poll(1).counts == {"SUCCESS": 1}


def test_a_fork_during_traffic_loses_nothing(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    parent, peer = pair
    at_parent, at_peer = connect(parent, peer, sends=1024, receives=1024)
    peer.ask("receive", at_peer, 1000)
    parent.send_command("send", at_parent, 500, 8)
    parent.send_command("fork", parent.fork_end)
    parent.send_command("send", at_parent, 500, 8)
    parent.send_command("poll", 1000, 5000)
    assert parent.read_answer() == []
    parent.read_answer()
    assert parent.read_answer() == []
    assert parent.read_answer()[1:] == ["SUCCESS=1000"]
    assert peer.poll(1000).counts == {"RECEIVED": 1000}
