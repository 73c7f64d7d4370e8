"""Between two hosts over a wire that loses packets: everything arrives, and long before local ACK timeouts alone would have let it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PairRan, Runner, free_port, run_pair
from lossy_wire import NAME
from namespaces import NamespacePair, NotPermitted
from perftest_output import check_result

ADDRESSES = ("10.78.0.1", "10.78.0.2")
LossyWire = Callable[[float], NamespacePair]


@pytest.fixture
def lossy_wire() -> Iterator[LossyWire]:
    """Two namespaces, and between them a wire with this share of its packets lost."""
    made: list[NamespacePair] = []
    relays: list[subprocess.Popen[str]] = []

    def of_loss(loss: float) -> NamespacePair:
        try:
            both = NamespacePair(1500)
        except NotPermitted as refusal:
            pytest.skip(f"no network namespaces here: {refusal}")
        made.append(both)
        holders = [str(both.holder(side)) for side in (0, 1)]
        script = str(Path(__file__).with_name("lossy_wire.py"))
        relay = subprocess.Popen(
            [sys.executable, script, *holders, str(loss), "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        relays.append(relay)
        assert relay.stdout is not None and relay.stderr is not None
        if relay.stdout.readline() != "ready\n":
            pytest.skip(f"no tun interface here: {relay.stderr.read().strip()}")
        for side in (0, 1):
            both.ip(side, f"address add {ADDRESSES[side]} peer {ADDRESSES[1 - side]} dev {NAME}")
            both.ip(side, f"link set {NAME} mtu 1500 txqueuelen 10000 up")
        return both

    yield of_loss
    for relay in relays:
        relay.kill()
        relay.communicate()
    for both in made:
        both.close()


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
    """Of 600 messages some 60 lose their packet or its acknowledgement. The timeout is 67 ms: it alone would take 4 s."""
    wire = lossy_wire(0.05)
    began = time.monotonic()
    run_across(runner, wire, ["ibv_rc_pingpong", "-g", "0", "-n", "300", "-s", "512", "-c"])
    assert time.monotonic() - began < 3
