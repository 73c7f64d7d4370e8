# SPDX-License-Identifier: Apache-2.0
"""An idle NIC uses no processor time: once it is ARMED, no thread of the process wakes up."""

import time

import pytest
from conftest import Node, Nodes, connect, eventually

WATCHED_S = 2.0
SHARE_MAX = 0.001


def watch(node: Node, seconds: float) -> tuple[int, int]:
    """The number of wake-ups and the processor time (ns) of the node within this time."""
    switches, cpu = node.switches(), node.cpu_ns()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)
    return node.switches() - switches, node.cpu_ns() - cpu


def settles(node: Node) -> bool:
    """Wait until the node has slept for 50 ms; False if it never does."""
    return eventually(lambda: watch(node, 0.05)[0] == 0)


@pytest.mark.parametrize("kinds", [[], ["rc"], ["rc", "uc"], ["rc", "ud"]], ids=lambda kinds: "+".join(kinds) or "open")
def test_an_idle_process_does_not_wake(nodes: Nodes, kinds: list[str]) -> None:
    a, b = nodes.start("a").open(), nodes.start("b").open()
    for kind in kinds:
        if kind == "ud":
            at_a, _ = a.qp("ud")
            at_b, to_b = b.qp("ud")
            b.ask("receive", at_b, 50)
            a.ask("send", at_a, 50, 8, to_b)
        else:
            at_a, at_b = connect(a, b, kind)
            b.ask("receive", at_b, 50)
            a.ask("send", at_a, 50, 8)
        assert a.poll(50).counts == {"SUCCESS": 50}
        assert b.poll(50).counts == {"RECEIVED": 50}
    assert settles(a)
    assert settles(b)
    wakes, cpu = watch(a, WATCHED_S)
    assert wakes == 0
    assert cpu < WATCHED_S * 1e9 * SHARE_MAX
    assert watch(b, 0.1)[0] == 0


def test_the_survivor_of_a_death_does_not_wake_either(nodes: Nodes) -> None:
    a, b = nodes.start("a").open(), nodes.start("b").open()
    connect(a, b)
    at_a, _ = connect(a, b)
    nodes.kill(b)
    a.ask("send", at_a, 1, 8)
    assert a.poll(1).counts == {"RETRY_EXC_ERR": 1}
    assert settles(a)
    assert watch(a, 0.5)[0] == 0
