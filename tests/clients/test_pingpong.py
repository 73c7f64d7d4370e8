# SPDX-License-Identifier: Apache-2.0
"""rdma-core's ibv_*_pingpong between two processes of this host must exchange all bytes."""

from collections.abc import Callable

import pytest
from conftest import PairRan

Pair = Callable[[list[str]], PairRan]

ON_LOOPBACK = ["env", "VERBENA_DEVICES=vb_lo"]  # the device with the largest MTU
CONNECTED = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"]
EVERY = [*CONNECTED, "ibv_ud_pingpong"]
MODES = [pytest.param([], id="polled"), pytest.param(["-e"], id="events"), pytest.param(["-c"], id="checked")]
# One byte, inline sizes, one cache line, around one path MTU (1024), several packets, long runs.
SIZES = [1, 7, 64, 1023, 1024, 1025, 4096, 65536, 1 << 20]


def check_exchanged(ran: PairRan, size: int, iterations: int) -> None:
    """Both sides must report the bytes of both directions.

    The iterations of ibv_srq_pingpong are those of all its queue pairs together.
    """
    for side in (ran.server, ran.client):
        assert f"{size * iterations * 2} bytes in " in side.output, f"\n{ran}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", EVERY)
def test_pingpong_of_the_default_size(pair: Pair, program: str, mode: list[str]) -> None:
    size = 1024 if program == "ibv_ud_pingpong" else 4096
    ran = pair([program, "-g", "0", "-n", "200", "-s", str(size), *mode])
    check_exchanged(ran, size, 200)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("program", CONNECTED)
def test_pingpong_of_one_byte_to_one_mebibyte_arrives_intact(pair: Pair, program: str, size: int) -> None:
    ran = pair([program, "-g", "0", "-n", "50", "-s", str(size), "-c"])
    check_exchanged(ran, size, 50)


@pytest.mark.parametrize("size", [1, 64, 512, 1024, 2048, 4096])
def test_ud_pingpong_up_to_the_mtu_of_the_loopback_arrives_intact(pair: Pair, size: int) -> None:
    ran = pair([*ON_LOOPBACK, "ibv_ud_pingpong", "-d", "vb_lo", "-g", "0", "-n", "50", "-s", str(size), "-c"])
    check_exchanged(ran, size, 50)


@pytest.mark.parametrize("path_mtu", [256, 512, 1024, 2048, 4096])
def test_rc_pingpong_over_every_path_mtu(pair: Pair, path_mtu: int) -> None:
    command = f"ibv_rc_pingpong -d vb_lo -g 0 -n 50 -s 10000 -m {path_mtu} -c"
    ran = pair([*ON_LOOPBACK, *command.split()])
    check_exchanged(ran, 10000, 50)


@pytest.mark.parametrize("queue_pairs", [1, 2, 16])
def test_srq_pingpong_shares_one_receive_queue_among_queue_pairs(pair: Pair, queue_pairs: int) -> None:
    pair(["ibv_srq_pingpong", "-g", "0", "-n", "100", "-q", str(queue_pairs)])


def test_rc_pingpong_through_the_extended_post_interface(pair: Pair) -> None:
    pair(["ibv_rc_pingpong", "-g", "0", "-n", "100", "-N"])


def test_ten_thousand_round_trips_do_not_wear_the_queues_out(pair: Pair) -> None:
    ran = pair(["ibv_rc_pingpong", "-g", "0", "-n", "10000", "-r", "16", "-s", "64"])
    check_exchanged(ran, 64, 10000)
