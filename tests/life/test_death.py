# SPDX-License-Identifier: Apache-2.0
"""A peer is killed by SIGKILL.

Messages that it had sent are still delivered, work towards it fails soon, and the survivor keeps no
descriptor and no memory of it.
"""

import signal

import pytest
from conftest import Node, Nodes, connect, eventually, stop

SOON_US = 1_000_000


def test_outstanding_work_fails_with_retry_exceeded_and_then_flushes(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    a, b = pair
    at_a, _ = connect(a, b)
    a.ask("receive", at_a, 3)
    a.ask("send", at_a, 10, 8)  # the peer has posted no receive, so nothing can complete
    nodes.kill(b)
    done = a.poll(13)
    assert list(done.counts) == ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]
    assert done["RETRY_EXC_ERR"] == 1
    assert done["WR_FLUSH_ERR"] == 12
    assert done.microseconds < SOON_US
    assert a.ask("state", at_a) == ["err"]


def test_a_survivor_asleep_on_its_completion_channel_is_woken_by_the_death(
    nodes: Nodes, pair: tuple[Node, Node]
) -> None:
    a, b = pair
    at_a, _ = connect(a, b)
    a.ask("send", at_a, 1, 8)
    a.send_command("wait", 1, 10_000)
    nodes.kill(b)
    words = a.read_answer()
    assert words[1:] == ["RETRY_EXC_ERR=1"]


@pytest.mark.parametrize("how", ["poll", "wait"])
def test_work_posted_after_the_death_fails_too(nodes: Nodes, pair: tuple[Node, Node], how: str) -> None:
    a, b = pair
    at_a, at_b = connect(a, b)
    b.ask("receive", at_b, 1)
    a.ask("send", at_a, 1, 8)
    assert a.poll(1)["SUCCESS"] == 1
    before = a.descriptors()
    nodes.kill(b)
    assert eventually(lambda: a.descriptors() < before)
    assert a.ask("state", at_a) == ["rts"]  # an idle QP has not noticed the death
    a.ask("send", at_a, 5, 8)
    done = a.poll(5) if how == "poll" else a.wait(5)
    assert done.counts == {"RETRY_EXC_ERR": 1, "WR_FLUSH_ERR": 4}
    assert done.microseconds < SOON_US


@pytest.mark.parametrize("count", [1, 20, 200])
def test_messages_that_the_dead_peer_had_published_are_delivered_before_the_failure(
    nodes: Nodes, pair: tuple[Node, Node], count: int
) -> None:
    """The survivor is stopped in the meantime, so it finds the messages and the death together."""
    a, b = pair
    at_a, at_b = connect(a, b, sends=256, receives=256)
    region, address, key = a.region(4096)
    a.ask("receive", at_a, 256)
    stop(a)
    b.ask("send", at_b, count, 8)
    b.ask("add", at_b, 1, 8, address, key)
    assert b.poll(1, 20).total == 0  # the ring holds them all, so all have been published
    nodes.kill(b)
    a.signal(signal.SIGCONT)
    a.ask("await", region, 0, 1, 5000)
    assert a.poll(count).counts == {"RECEIVED": count}
    a.ask("send", at_a, 1, 8)
    assert a.poll(1).counts == {"RETRY_EXC_ERR": 1}


@pytest.mark.parametrize("kind", ["rc", "uc"])
def test_other_connections_continue_after_the_death(nodes: Nodes, pair: tuple[Node, Node], kind: str) -> None:
    a, b = pair
    c = nodes.start("c").open()
    to_b, _ = connect(a, b, kind)
    to_c, at_c = connect(a, c)
    c.ask("receive", at_c, 100)
    a.ask("send", to_b, 100, 8)
    nodes.kill(b)
    a.ask("send", to_c, 100, 8)
    assert a.poll(200).total == 200
    assert c.poll(100).counts == {"RECEIVED": 100}


def test_datagrams_to_others_continue_after_the_death(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    a, b = pair
    c = nodes.start("c").open()
    at_a, _ = a.qp("ud")
    _, to_b = b.qp("ud")
    at_c, to_c = c.qp("ud")
    c.ask("receive", at_c, 100)
    for _ in range(10):
        a.ask("send", at_a, 5, 8, to_b)
        a.ask("send", at_a, 5, 8, to_c)
    assert a.poll(100).counts == {"SUCCESS": 100}
    nodes.kill(b)
    for _ in range(10):
        a.ask("send", at_a, 5, 8, to_b)
        a.ask("send", at_a, 5, 8, to_c)
    assert a.poll(100).counts == {"SUCCESS": 100}
    assert c.poll(100).counts == {"RECEIVED": 100}


def test_a_process_that_starts_after_the_death_can_be_reached(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    a, b = pair
    connect(a, b)
    nodes.kill(b)
    c = nodes.start("c").open()
    at_a, at_c = connect(a, c)
    c.ask("receive", at_c, 1)
    a.ask("send", at_a, 1, 8)
    assert a.poll(1).counts == {"SUCCESS": 1}


@pytest.mark.parametrize("kind", ["rc", "ud"])
def test_a_server_keeps_nothing_of_its_short_lived_clients(nodes: Nodes, kind: str) -> None:
    """1,000 processes in turn exchange a message with the server and die. Each link takes 0.5 MiB,
    so the last 850 would cost 425 MiB if the server kept them; it may grow by 512 KiB.
    """
    server = nodes.start("server").open()
    at_server, server_qpn = server.qp("ud", 16, 1024)
    server.ask("receive", at_server, 1000)

    def serve_one() -> None:
        client = nodes.start("client").open()
        if kind == "ud":
            at_client, client_qpn = client.qp("ud", 4, 4)
            client.ask("send", at_client, 1, 8, server_qpn)
            assert server.poll(1).counts == {"RECEIVED": 1}
            server.ask("send", at_server, 1, 8, client_qpn)
            assert server.poll(1).counts == {"SUCCESS": 1}
        else:
            at_client, at_there = connect(client, server, sends=4, receives=4)
            server.ask("receive", at_there, 1)
            client.ask("send", at_client, 1, 8)
            assert server.poll(1).counts == {"RECEIVED": 1}
            server.ask("destroy", at_there)
        nodes.kill(client)

    def serve(count: int) -> None:
        for _ in range(count):
            serve_one()
        assert eventually(lambda: server.descriptors() == descriptors)

    descriptors = server.descriptors()
    serve(150)  # until the heap and the node's buffers and tables have reached their size
    resident = server.status("VmRSS")
    for _ in range(17):
        serve(50)
    assert server.status("VmRSS") - resident < 512
