# SPDX-License-Identifier: Apache-2.0
"""A program may end at any moment, also from a signal handler."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import DEVICE, LIMIT_S, NIC, Nodes, build, started
from namespaces import ADDRESSES, NamespacePair

RUNS = 20
LIMIT_MS = 20_000


def test_a_handler_that_interrupts_a_poll_may_exit(tmp_path: Path) -> None:
    """At exit the NIC waited for its lock, which the interrupted poll held: fi_pingpong, ended by
    SIGTERM, went on for ever."""
    source = Path(__file__).with_name("exit_in_handler.cc")
    program = build(source, tmp_path / "exit_in_handler", "-lrdmacm", "-Wno-missing-field-initializers")
    for run in range(RUNS):
        done = subprocess.run(
            [program, str(1000 + 37 * run)],
            env=os.environ | {"VERBENA_DEVICES": DEVICE, "LD_PRELOAD": str(NIC)},
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 3, f"run {run}"


def test_an_acknowledgement_that_waits_leaves_before_the_process_ends(hosts: NamespacePair, nodes: Nodes) -> None:
    """A poll that finds a message keeps its acknowledgement for the answer of the program. If that
    ends instead, its peer must get the acknowledgement all the same."""
    a = started(hosts, nodes, 0)
    index, qpn = a.qp()
    for _ in range(RUNS):
        b = started(hosts, nodes, 1)
        at_b, qpn_b = b.qp()
        a.ask("connect", index, qpn_b, 0, f"::ffff:{ADDRESSES[1]}")
        b.ask("connect", at_b, qpn, 0, f"::ffff:{ADDRESSES[0]}")
        b.ask("receive", at_b, 1)
        b.send_command("exit", 1, LIMIT_MS)
        a.ask("send", index, 1, 64)
        assert a.poll(1).counts == {"SUCCESS": 1}
        index, qpn = a.qp()


@pytest.mark.parametrize("end", ["destroy", "modify"])
def test_an_acknowledgement_that_waits_leaves_before_its_queue_pair_ends(
    hosts: NamespacePair, nodes: Nodes, end: str
) -> None:
    """ibv_rc_pingpong destroys its queue pair after its last receive; its peer got an error."""
    a, b = started(hosts, nodes, 0), started(hosts, nodes, 1)
    for _ in range(RUNS):
        (at_a, qpn_a), (at_b, qpn_b) = a.qp(), b.qp()
        a.ask("connect", at_a, qpn_b, 0, f"::ffff:{ADDRESSES[1]}")
        b.ask("connect", at_b, qpn_a, 0, f"::ffff:{ADDRESSES[0]}")
        b.ask("receive", at_b, 1)
        b.send_command("poll", 1, LIMIT_MS)
        b.send_command(end, at_b, *(["reset"] if end == "modify" else []))
        a.ask("send", at_a, 1, 64)
        assert a.poll(1).counts == {"SUCCESS": 1}
        b.read_answer()
        b.read_answer()


def test_a_process_ends_with_its_last_thread_though_the_main_one_has_left(tmp_path: Path) -> None:
    """The C library counts the NIC's threads, and waited for them for ever."""
    source = Path(__file__).with_name("main_thread_leaves.cc")
    program = build(source, tmp_path / "leaves", "-pthread", "-Wno-missing-field-initializers")
    done = subprocess.run(
        [program],
        env=os.environ | {"VERBENA_DEVICES": DEVICE, "LD_PRELOAD": str(NIC)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = ["the main thread's value ends", "the last thread ends", "the process ends"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, said, ""), done
