# SPDX-License-Identifier: Apache-2.0
"""A process unmaps registered memory during traffic.

The operation fails with an access error, and both processes continue (docs/decisions/0007).
"""

import pytest
from conftest import Node, connect

SIZE = 1 << 20


@pytest.mark.parametrize(
    ("operation", "size"), [("write", 8), ("write", 65536), ("read", 8), ("read", 65536), ("add", 8)]
)
def test_an_operation_on_unmapped_memory_fails_and_works_after_remapping(
    pair: tuple[Node, Node], operation: str, size: int
) -> None:
    a, b = pair
    region, address, key = b.region(SIZE)
    before, _ = connect(a, b)
    a.ask(operation, before, 10, size, address, key)
    assert a.poll(10).counts == {"SUCCESS": 10}

    b.ask("unmap", region)
    a.ask(operation, before, 10, size, address, key)
    done = a.poll(10)
    assert list(done.counts.items()) == [("REM_ACCESS_ERR", 1), ("WR_FLUSH_ERR", 9)]

    b.ask("remap", region)
    after, at_b = connect(a, b)
    a.ask(operation, after, 10, size, address, key)
    assert a.poll(10).counts == {"SUCCESS": 10}
    if operation == "add":
        assert b.ask("load", region, 0) == ["10"]
    b.ask("receive", at_b, 1)
    a.ask("send", after, 1, 8)
    assert b.poll(1).counts == {"RECEIVED": 1}


def test_unmapping_during_writes_causes_only_access_errors(pair: tuple[Node, Node]) -> None:
    """The owner unmaps and maps the memory ten times while WRITEs arrive; the writer reconnects."""
    a, b = pair
    region, address, key = b.region(SIZE)
    for _ in range(10):
        at_a, _ = connect(a, b)
        a.ask("write", at_a, 100, 65536, address, key)
        b.send_command("unmap", region)
        done = a.poll(100)
        assert b.read_answer() == []
        assert done.total == 100
        assert set(done.counts) <= {"SUCCESS", "REM_ACCESS_ERR", "WR_FLUSH_ERR"}
        b.ask("remap", region)
    at_a, _ = connect(a, b)
    a.ask("write", at_a, 1, 65536, address, key)
    assert a.poll(1).counts == {"SUCCESS": 1}
