# SPDX-License-Identifier: Apache-2.0
"""A peer that is stopped by SIGSTOP is not dead.

RC waits for it and delivers everything after SIGCONT. Datagrams to other processes are not delayed.
"""

import signal
import time

import pytest
from conftest import Node, Nodes, connect, stop


@pytest.mark.parametrize("how", ["poll", "wait"])
def test_rc_waits_for_a_stopped_peer_and_then_everything_arrives(pair: tuple[Node, Node], how: str) -> None:
    a, b = pair
    at_a, at_b = connect(a, b, sends=1024, receives=1024)
    b.ask("receive", at_b, 1000)
    stop(b)
    a.ask("send", at_a, 1000, 8)  # more than the ring holds
    # 7 retries with the ACK timeout of 2^14 * 4.096 us = 67 ms would be exhausted by then.
    assert a.poll(1, 700).total == 0
    b.signal(signal.SIGCONT)
    done = a.poll(1000) if how == "poll" else a.wait(1000)
    assert done.counts == {"SUCCESS": 1000}
    assert b.poll(1000).counts == {"RECEIVED": 1000}


def test_a_sender_asleep_is_woken_when_its_peer_continues(pair: tuple[Node, Node]) -> None:
    a, b = pair
    at_a, at_b = connect(a, b, sends=1024, receives=1024)
    b.ask("receive", at_b, 1000)
    stop(b)
    a.ask("send", at_a, 1000, 8)
    a.send_command("wait", 1000, 10_000)
    b.signal(signal.SIGCONT)  # b calls no verb afterwards
    assert a.read_answer()[1:] == ["SUCCESS=1000"]


@pytest.mark.parametrize("how", ["poll", "wait"])
def test_datagrams_to_others_continue_while_a_peer_is_stopped(nodes: Nodes, pair: tuple[Node, Node], how: str) -> None:
    a, b = pair
    c = nodes.start("c").open()
    at_a, _ = a.qp("ud", 2048, 16)
    _, to_b = b.qp("ud")
    at_c, to_c = c.qp("ud", 16, 1024)
    c.ask("receive", at_c, 1000)
    for to in (to_b, to_c):
        a.ask("send", at_a, 1, 8, to)
    assert a.poll(2).counts == {"SUCCESS": 2}
    assert c.poll(1).counts == {"RECEIVED": 1}
    stop(b)
    for _ in range(100):  # 700 to the stopped process: more than its ring holds
        a.ask("send", at_a, 7, 8, to_b)
        a.ask("send", at_a, 9, 8, to_c)
        assert c.poll(9).counts == {"RECEIVED": 9}
    done = a.poll(1600) if how == "poll" else a.wait(1600)
    assert done.counts == {"SUCCESS": 1600}


def test_datagrams_to_others_do_not_wait_for_the_greeting_of_a_stopped_process(
    nodes: Nodes, pair: tuple[Node, Node]
) -> None:
    """The stopped process's name is bound, but it does not answer the greeting."""
    a, b = pair
    c = nodes.start("c").open()
    at_a, _ = a.qp("ud")
    _, to_b = b.qp("ud")
    at_c, to_c = c.qp("ud")
    c.ask("receive", at_c, 50)
    stop(b)
    start = time.monotonic()
    for _ in range(50):
        a.ask("send", at_a, 1, 8, to_b)
        a.ask("send", at_a, 1, 8, to_c)
    assert a.poll(100).counts == {"SUCCESS": 100}
    assert c.poll(50).counts == {"RECEIVED": 50}
    # The NIC waits 5 s for the greeting of a process that is not stopped.
    assert time.monotonic() - start < 4


def test_work_to_a_stopped_process_fails_when_it_is_killed(nodes: Nodes, pair: tuple[Node, Node]) -> None:
    a, b = pair
    at_a, _ = connect(a, b, sends=1024)
    stop(b)
    a.ask("send", at_a, 1000, 8)
    nodes.kill(b)
    assert a.poll(1000).counts == {"RETRY_EXC_ERR": 1, "WR_FLUSH_ERR": 999}


def test_connecting_to_a_stopped_process_times_out(pair: tuple[Node, Node]) -> None:
    a, b = pair
    at_a, _ = a.qp()
    _, to_b = b.qp()
    stop(b)
    assert a.refusal("connect", at_a, to_b) == "ETIMEDOUT"
    b.signal(signal.SIGCONT)
    connect(a, b)
