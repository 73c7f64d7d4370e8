# SPDX-License-Identifier: Apache-2.0
"""A process that has no descriptor left cannot accept its peers, and they notice that soon."""

import itertools
import os
import resource

from conftest import Node


def test_a_peer_without_descriptors_is_noticed(pair: tuple[Node, Node]) -> None:
    """Its peer waited for 5 s, with all its threads that connected meanwhile."""
    a, b = pair
    at_a, _ = a.qp()
    _, at_b = b.qp()
    usual = resource.prlimit(b.pid, resource.RLIMIT_NOFILE)
    in_use = {int(name) for name in os.listdir(f"/proc/{b.pid}/fd")}
    lowest_free = next(number for number in itertools.count() if number not in in_use)
    resource.prlimit(b.pid, resource.RLIMIT_NOFILE, (lowest_free, usual[1]))
    assert a.refusal("connect", at_a, at_b) == "ECONNRESET"
    resource.prlimit(b.pid, resource.RLIMIT_NOFILE, usual)
    a.ask("connect", at_a, at_b)
