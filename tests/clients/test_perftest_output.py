# SPDX-License-Identifier: Apache-2.0
"""The reader of perftest's output accepts results and refuses output that only looks like one."""

import pytest
from conftest import TROUBLE
from perftest_output import Row, check_result, rows

BANDWIDTH = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      200              13.50              13.49\t\t   0.000216
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       200          74.10          210.33       88.02              90.55            12.01             150.20                  210.33
"""  # noqa: E501, W291


def test_a_result_row_is_read() -> None:
    assert rows(BANDWIDTH) == [Row(65536, 200, (13.5, 13.49, 0.000216))]
    check_result("ib_send_bw", BANDWIDTH, 200)
    check_result("ib_send_lat", LATENCY, 200)


@pytest.mark.parametrize(
    ("program", "output"),
    [
        pytest.param("ib_send_bw", "", id="nothing"),
        pytest.param("ib_send_bw", BANDWIDTH.replace("13.49", " 0.00"), id="no bandwidth"),
        pytest.param("ib_send_bw", BANDWIDTH.replace(" 200 ", " 100 "), id="too few iterations"),
        pytest.param("ib_send_lat", BANDWIDTH, id="the other kind of table"),
        pytest.param("ib_send_lat", LATENCY.replace("88.02", " 0.00"), id="no latency"),
    ],
)
def test_output_without_a_result_is_refused(program: str, output: str) -> None:
    with pytest.raises(AssertionError):
        check_result(program, output, 200)


@pytest.mark.parametrize(
    "said", [" Completion with error at client", " Failed status 12: wr_id 0 syndrom 0x0", "Couldn't connect to peer"]
)
def test_an_error_message_is_found_although_perftest_exits_with_0(said: str) -> None:
    assert TROUBLE.search(said)


def latency(longest: str, deviation: str) -> str:
    return LATENCY.replace("210.33   ", f"{longest}   ").replace("12.01", deviation)


def test_a_deviation_that_perftest_could_not_compute_is_no_lack_of_a_result() -> None:
    check_result("ib_write_lat", latency("82778.04", "-nan"), 200)


@pytest.mark.parametrize(
    ("longest", "deviation"), [("900.00", "-nan"), ("-nan", "12.00"), ("82778.04", "inf"), ("82778.04", "")]
)
def test_a_row_that_lacks_another_figure_is_no_result(longest: str, deviation: str) -> None:
    with pytest.raises(AssertionError, match="no result"):
        check_result("ib_write_lat", latency(longest, deviation), 200)
