# SPDX-License-Identifier: Apache-2.0
"""Many processes: a star, all to all, and pairs that connect to each other at the same moment."""

import itertools

from conftest import Node, Nodes

PROCESSES = 30
ROUNDS = 20


def connect_at_once(pairs: list[tuple[Node, Node]]) -> list[tuple[Node, int, Node, int]]:
    """Connect all pairs at once: every node gets its command before the first answer is read."""
    made = []
    for a, b in pairs:
        (at_a, qpn_a), (at_b, qpn_b) = a.qp("rc", 16, 16), b.qp("rc", 16, 16)
        made.append((a, at_a, qpn_a, b, at_b, qpn_b))
    for a, at_a, qpn_a, b, at_b, qpn_b in made:
        a.send_command("connect", at_a, qpn_b)
        b.send_command("connect", at_b, qpn_a)
    for a, _, _, b, _, _ in made:
        a.read_answer()
        b.read_answer()
    return [(a, at_a, b, at_b) for a, at_a, _, b, at_b, _ in made]


def exchange(connections: list[tuple[Node, int, Node, int]], messages: int) -> None:
    """Send messages in both directions over each connection, all in flight at the same time."""
    expected: dict[str, tuple[Node, int]] = {}
    for a, at_a, b, at_b in connections:
        for node, at in ((a, at_a), (b, at_b)):
            node.send_command("receive", at, messages)
            expected[node.name] = (node, expected.get(node.name, (node, 0))[1] + messages)
    for a, _, b, _ in connections:
        a.read_answer()
        b.read_answer()
    for a, at_a, b, at_b in connections:
        a.send_command("send", at_a, messages, 8)
        b.send_command("send", at_b, messages, 8)
    for a, _, b, _ in connections:
        a.read_answer()
        b.read_answer()
    for node, count in expected.values():
        node.send_command("wait", 2 * count, 20_000)
    for node, count in expected.values():
        assert sorted(node.read_answer()[1:]) == [f"RECEIVED={count}", f"SUCCESS={count}"], node.name


def test_two_processes_that_connect_at_the_same_moment(nodes: Nodes) -> None:
    """Each may get the other's greeting while it sends its own. Then both links must work."""
    for _ in range(ROUNDS):
        a, b = nodes.start().open(), nodes.start().open()
        connections = connect_at_once([(a, b), (a, b)])
        exchange(connections, 10)
        exchange(connect_at_once([(a, b)]), 10)
        nodes.kill(a)
        nodes.kill(b)


def test_thirty_clients_of_one_server_exchange_messages(nodes: Nodes) -> None:
    server = nodes.start("server").open()
    clients = [nodes.start().open() for _ in range(PROCESSES)]
    connections = connect_at_once([(client, server) for client in clients])
    exchange(connections, 10)
    for client in clients[::2]:
        nodes.kill(client)
    exchange(connections[1::2], 10)


def test_thirty_processes_all_exchange_messages_with_each_other(nodes: Nodes) -> None:
    every = [nodes.start().open() for _ in range(PROCESSES)]
    connections = connect_at_once(list(itertools.combinations(every, 2)))
    exchange(connections, 2)
