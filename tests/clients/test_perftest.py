# SPDX-License-Identifier: Apache-2.0
"""Debian's perftest between two processes of this host must measure without an error."""

from collections.abc import Callable

import pytest
from conftest import PairRan
from perftest_output import check_result

Pair = Callable[[list[str]], PairRan]

ITERATIONS = 200
COMMON = ["-F", "-x", "0", "-n", str(ITERATIONS)]


def run(pair: Pair, program: str, *options: str) -> None:
    ran = pair([program, *COMMON, *options])
    check_result(program, ran.client.output, ITERATIONS)


@pytest.mark.parametrize(
    "program",
    [
        "ib_send_bw",
        "ib_send_lat",
        "ib_write_bw",
        "ib_write_lat",
        "ib_read_bw",
        "ib_read_lat",
        "ib_atomic_bw",
        "ib_atomic_lat",
    ],
)
def test_every_operation_over_rc(pair: Pair, program: str) -> None:
    run(pair, program)


@pytest.mark.parametrize("size", [2, 64, 4096, 1 << 20])
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_write_lat"])
def test_sizes_from_2_bytes_to_one_mebibyte_over_rc(pair: Pair, program: str, size: int) -> None:
    run(pair, program, "-s", str(size))


@pytest.mark.parametrize("connection", ["UC", "UD"])
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
def test_send_over_the_unreliable_transports(pair: Pair, program: str, connection: str) -> None:
    run(pair, program, "-c", connection, "-s", "1024")


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_write_lat"])
def test_write_over_uc(pair: Pair, program: str) -> None:
    run(pair, program, "-c", "UC", "-s", "4096")


# ib_write_bw and ib_write_lat have no -e.
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat"])
def test_events_instead_of_polling(pair: Pair, program: str) -> None:
    run(pair, program, "-e", "-s", "4096")


@pytest.mark.parametrize("kind", ["CMP_AND_SWAP", "FETCH_AND_ADD"])
def test_both_atomics(pair: Pair, kind: str) -> None:
    run(pair, "ib_atomic_lat", "-A", kind)


@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw"])
def test_four_queue_pairs_in_both_directions(pair: Pair, program: str) -> None:
    ran = pair([program, *COMMON, "-q", "4", "-b", "-s", "4096"])
    check_result(program, ran.client.output, 4 * ITERATIONS)


@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
def test_a_shared_receive_queue(pair: Pair, program: str) -> None:
    run(pair, program, "--use-srq", "-s", "1024")
