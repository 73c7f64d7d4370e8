# SPDX-License-Identifier: Apache-2.0
"""One-sided operations complete although their target calls no verb after set-up."""

import pytest
from conftest import Node, connect, eventually

OPERATIONS = [("write", 8), ("write", 65536), ("read", 8), ("read", 65536), ("add", 8)]


@pytest.mark.parametrize(("operation", "size"), OPERATIONS)
def test_one_sided_operations_complete_while_the_target_is_blocked_in_read(
    pair: tuple[Node, Node], operation: str, size: int
) -> None:
    """A node is blocked in read() between two commands."""
    a, b = pair
    at_a, _ = connect(a, b)
    _, address, key = b.region(65536)
    a.ask(operation, at_a, 100, size, address, key)
    assert a.poll(100).counts == {"SUCCESS": 100}
    a.ask(operation, at_a, 100, size, address, key)
    assert a.wait(100).counts == {"SUCCESS": 100}
    median = int(a.ask("latency", operation, at_a, 200, size, address, key)[0])
    print(f"{operation} of {size} bytes: {median} ns")  # for pytest -rP


@pytest.mark.parametrize(("operation", "size"), OPERATIONS)
def test_one_sided_operations_complete_while_the_target_spins_on_memory(
    pair: tuple[Node, Node], operation: str, size: int
) -> None:
    a, b = pair
    at_a, _ = connect(a, b)
    _, address, key = b.region(65536)
    flag, flag_address, flag_key = b.region(4096)
    b.send_command("await", flag, 0, 1, 20_000)
    a.ask(operation, at_a, 100, size, address, key)
    assert a.poll(100).counts == {"SUCCESS": 100}
    median = int(a.ask("latency", operation, at_a, 200, size, address, key)[0])
    print(f"{operation} of {size} bytes: {median} ns")  # for pytest -rP
    a.ask("add", at_a, 1, 8, flag_address, flag_key)
    assert a.poll(1).counts == {"SUCCESS": 1}
    assert b.read_answer() == []


def test_the_last_message_arrives_after_the_receiver_stops_polling(pair: tuple[Node, Node]) -> None:
    """The receiver stops polling in the middle of the traffic, without notice to the NIC."""
    a, b = pair
    at_a, at_b = connect(a, b)
    region, address, key = b.region(4096)
    b.ask("receive", at_b, 100)
    total = 0
    for count in range(1, 40):
        a.ask("send", at_a, 1, 8)
        assert b.poll(1).counts == {"RECEIVED": 1}  # b's engine is BUSY now
        a.ask("add", at_a, count, 8, address, key)  # a calls no verb after this either
        total += count
        assert eventually(lambda total=total: b.ask("load", region, 0) == [str(total)])
        assert a.poll(count + 1).counts == {"SUCCESS": count + 1}


def test_a_process_that_sends_to_itself_and_sleeps_is_woken(pair: tuple[Node, Node]) -> None:
    node, _ = pair
    one, qpn_one = node.qp()
    two, qpn_two = node.qp()
    node.ask("connect", one, qpn_two)
    node.ask("connect", two, qpn_one)
    node.ask("receive", two, 20)
    for _ in range(20):
        node.ask("send", one, 1, 8)
        assert node.wait(2).counts in ({"RECEIVED": 1, "SUCCESS": 1}, {"SUCCESS": 1, "RECEIVED": 1})
