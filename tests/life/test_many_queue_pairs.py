# SPDX-License-Identifier: Apache-2.0
"""100,000 connected queue pairs in one process.

QPNs, descriptors, memory and time must suffice. Messages are sent over 500 of the queue pairs.
"""

import random
import resource
from pathlib import Path

from conftest import Node, Nodes

PAIRS = 100_000
BYTES_EACH_MAX = 4096
CREATE_NS_MAX = 100_000


def resident(node: Node) -> int:
    return node.status("VmRSS") * 1024


def test_a_hundred_thousand_connected_queue_pairs(nodes: Nodes, tmp_path: Path) -> None:
    a, b = nodes.start("a").open(), nodes.start("b").open()
    descriptors = a.descriptors()
    empty = resident(a)
    numbers = {node.name: tmp_path / node.name for node in (a, b)}
    for node in (a, b):
        node.send_command("qps", PAIRS, 1, 1, numbers[node.name])
    created = [node.read_answer(120) for node in (a, b)]
    unconnected = resident(a)
    a.send_command("connect_all", 0, numbers[b.name])
    b.send_command("connect_all", 0, numbers[a.name])
    connected = [node.read_answer(120) for node in (a, b)]

    each = (resident(a) - empty) / PAIRS
    create_ns, connect_ns = int(created[0][1]) / PAIRS, int(connected[0][0]) / PAIRS
    print(f"{create_ns:.0f} ns to create, {connect_ns:.0f} ns to connect")  # for pytest -rP
    print(f"{(unconnected - empty) / PAIRS:.0f} and then {each:.0f} bytes resident for each")
    print(f"{a.descriptors() - descriptors} descriptors")
    assert each <= BYTES_EACH_MAX
    assert create_ns + connect_ns < CREATE_NS_MAX
    # Each block of 4,096 numbers has two names.
    assert a.descriptors() - descriptors <= 2 * PAIRS / 4096 + 10
    assert a.descriptors() < resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    chosen = random.Random(7).sample(range(PAIRS), 500)
    for index in chosen:
        b.send_command("receive", index, 1)
    for _ in chosen:
        b.read_answer()
    for index in chosen:
        a.send_command("send", index, 1, 8)
    for _ in chosen:
        a.read_answer()
    assert a.poll(len(chosen)).counts == {"SUCCESS": len(chosen)}
    assert b.poll(len(chosen)).total == len(chosen)

    # After the peer's death, only the queue pairs with outstanding work report a failure.
    for index in chosen[:10]:
        a.ask("send", index, 1, 8)
    nodes.kill(b)
    assert a.poll(10).counts == {"RETRY_EXC_ERR": 10}
    a.ask("close", limit_s=120)
