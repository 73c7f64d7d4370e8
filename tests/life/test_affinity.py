# SPDX-License-Identifier: Apache-2.0
"""Peers wake a node's progress thread on their own processor, but never move a thread whose
processors the user chose by taskset."""

import os
from pathlib import Path

import pytest
from conftest import Node, Nodes, connect, eventually

PROCESSORS = sorted(os.sched_getaffinity(0))
ROUNDS = 20

pytestmark = pytest.mark.skipif(
    len(PROCESSORS) < 2 or len(PROCESSORS) != os.cpu_count(), reason="needs all of at least two processors"
)


def tasks(node: Node) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{node.pid}/task").iterdir()]


def masks(node: Node) -> list[set[int]]:
    return [os.sched_getaffinity(task) for task in tasks(node)]


def limit(node: Node, processors: set[int]) -> None:
    """As `taskset -a -p` does."""
    for task in tasks(node):
        os.sched_setaffinity(task, processors)


def kick_from_every_processor(kicker: Node, at: int, target: tuple[int, int]) -> None:
    """The target sleeps in read(), so each operation kicks it."""
    for round_number in range(ROUNDS):
        limit(kicker, {PROCESSORS[round_number % len(PROCESSORS)]})
        assert int(kicker.ask("latency", "add", at, 5, 8, *target)[0]) > 0


@pytest.mark.parametrize("when", ["from its start", "later", "after kicks moved it"])
def test_a_kick_leaves_a_thread_in_its_taskset(nodes: Nodes, when: str) -> None:
    chosen = {PROCESSORS[0]}
    kicker = nodes.start("kicker").open()
    way = ["taskset", "-c", str(PROCESSORS[0])] if when == "from its start" else []
    limited = nodes.start("limited", lambda command: [*way, *command]).open()
    at, _ = connect(kicker, limited)
    _, *target = limited.region(4096)
    if when == "after kicks moved it":
        kick_from_every_processor(kicker, at, (target[0], target[1]))
        # The last kick may have moved it to this processor; then the choice would go unnoticed.
        moved_to = [mask for mask in masks(limited) if len(mask) == 1]
        if moved_to:
            chosen = {PROCESSORS[0] if moved_to[0] != {PROCESSORS[0]} else PROCESSORS[1]}
    if when != "from its start":
        limit(limited, chosen)
    kick_from_every_processor(kicker, at, (target[0], target[1]))
    assert masks(limited) == [chosen] * len(tasks(limited))


def test_a_kick_moves_a_thread_that_may_run_everywhere(nodes: Nodes) -> None:
    kicker, free = nodes.start("kicker").open(), nodes.start("free").open()
    at, _ = connect(kicker, free)
    _, *target = free.region(4096)
    for processor in (*PROCESSORS[:2], PROCESSORS[0]):
        limit(kicker, {processor})
        assert int(kicker.ask("latency", "add", at, 50, 8, *target)[0]) > 0
        assert eventually(lambda processor=processor: {processor} in masks(free))
