# SPDX-License-Identifier: Apache-2.0
"""The same programs between two network namespaces, which are two hosts to the NIC.

A test fails if fewer RoCEv2 bytes cross the wire than the programs say they sent.
"""

import pytest
from conftest import PairRan, Runner, free_port, run_pair
from namespaces import ADDRESSES, NamespacePair
from perftest_output import check_result


def run_across(runner: Runner, wire: NamespacePair, program: list[str]) -> PairRan:
    port = free_port()
    command = [*program, "-p", str(port)]
    sides = (lambda inner: wire.inside(0, inner), lambda inner: wire.inside(1, inner))
    return run_pair(runner, command, [*command, ADDRESSES[0]], port=port, networks=sides).check()


def counters(wire: NamespacePair) -> list[tuple[int, int]]:
    return [(wire.sent_bytes(side), wire.udp_datagrams_sent(side)) for side in (0, 1)]


def check_crossed(wire: NamespacePair, before: list[tuple[int, int]], payload_bytes: tuple[int, int]) -> None:
    """Each side has sent UDP datagrams and at least its payload over the wire.

    The TCP connection over which the programs exchange their parameters carries only 200 bytes.
    """
    for side, ((bytes_before, datagrams_before), (bytes_after, datagrams_after)) in enumerate(
        zip(before, counters(wire), strict=True)
    ):
        assert datagrams_after > datagrams_before, f"side {side} sent no UDP datagram"
        assert bytes_after - bytes_before > payload_bytes[side], (
            f"side {side} sent {bytes_after - bytes_before} bytes, its payload alone has more"
        )


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("ibv_rc_pingpong", 64),
        ("ibv_rc_pingpong", 4096),
        ("ibv_rc_pingpong", 1 << 20),
        ("ibv_uc_pingpong", 4096),
        ("ibv_ud_pingpong", 1024),
    ],
)
def test_pingpong_crosses_the_wire(runner: Runner, netns_pair: NamespacePair, program: str, size: int) -> None:
    before = counters(netns_pair)
    run_across(runner, netns_pair, [program, "-g", "0", "-n", "50", "-s", str(size), "-c"])
    check_crossed(netns_pair, before, (50 * size, 50 * size))


@pytest.mark.parametrize("mode", ["-e", "-c"])
def test_rc_pingpong_with_events_or_checks_crosses_the_wire(
    runner: Runner, netns_pair: NamespacePair, mode: str
) -> None:
    path_mtu = "1024" if netns_pair.mtu == 1500 else "4096"
    before = counters(netns_pair)
    run_across(runner, netns_pair, ["ibv_rc_pingpong", "-g", "0", "-n", "200", "-s", "10000", "-m", path_mtu, mode])
    check_crossed(netns_pair, before, (200 * 10000, 200 * 10000))


@pytest.mark.parametrize(
    ("program", "options", "payload_bytes"),
    [
        ("ib_send_bw", ["-s", "65536"], (0, 200 * 65536)),
        ("ib_write_bw", ["-s", "65536"], (0, 200 * 65536)),
        ("ib_read_bw", ["-s", "65536"], (200 * 65536, 0)),
        ("ib_atomic_lat", [], (200 * 8, 200 * 28)),
    ],
)
def test_perftest_crosses_the_wire(
    runner: Runner, netns_pair: NamespacePair, program: str, options: list[str], payload_bytes: tuple[int, int]
) -> None:
    before = counters(netns_pair)
    ran = run_across(runner, netns_pair, [program, "-F", "-x", "0", "-n", "200", *options])
    check_result(program, ran.client.output, 200)
    check_crossed(netns_pair, before, payload_bytes)
