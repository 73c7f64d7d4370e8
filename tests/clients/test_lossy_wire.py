# SPDX-License-Identifier: Apache-2.0
"""Traffic between two hosts over a wire that loses packets arrives completely, and sooner than
retransmission by the local ACK timeout alone would allow.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import lossy_wire as wires
import pytest
from conftest import PairRan, Runner, free_port, run_pair
from lossy_wire import ADDRESSES
from namespaces import NamespacePair, NotPermitted
from perftest_output import check_result

LossyWire = Callable[[float], NamespacePair]


@pytest.fixture
def lossy_wire() -> Iterator[LossyWire]:
    with contextlib.ExitStack() as made:

        def of_loss(loss: float) -> NamespacePair:
            try:
                return made.enter_context(wires.lossy_wire(loss))
            except NotPermitted as refusal:
                pytest.skip(f"no network namespaces here: {refusal}")

        yield of_loss


def run_across(runner: Runner, wire: NamespacePair, program: list[str]) -> PairRan:
    port = free_port()
    command = [*program, "-p", str(port)]
    sides = (lambda inner: wire.inside(0, inner), lambda inner: wire.inside(1, inner))
    return run_pair(runner, command, [*command, ADDRESSES[0]], port=port, networks=sides).check()


@pytest.mark.parametrize("loss", [0.01, 0.05])
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_read_bw"])
def test_bandwidth_programs_finish(runner: Runner, lossy_wire: LossyWire, program: str, loss: float) -> None:
    ran = run_across(runner, lossy_wire(loss), [program, "-F", "-x", "0", "-s", "65536", "-n", "64"])
    check_result(program, ran.client.output, 64)


def test_losses_do_not_wait_for_the_timeout(runner: Runner, lossy_wire: LossyWire) -> None:
    """About 60 of the 600 messages lose their packet or its acknowledgement. With timeouts of 67 ms
    alone, repeating them would take 4 s.
    """
    wire = lossy_wire(0.05)
    began = time.monotonic()
    run_across(runner, wire, ["ibv_rc_pingpong", "-g", "0", "-n", "300", "-s", "512", "-c"])
    assert time.monotonic() - began < 3
