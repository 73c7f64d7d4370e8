import json

import pytest
from outputs import NoResult, parse_perftest, parse_rcud, parse_ucx

# The output of ucx_perftest 1.13 with -f -v: tag_bw, 8 bytes.
UCX = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100000,0.141,1.159,1.159,6.58,6.58,862493,862493
"""
BANDWIDTH = """\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 8          20000            78.29              11.68\t\t   1.531479
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       5000          0.13           21.12        0.15     	       0.17        	0.41   		0.19    		12.12  
---------------------------------------------------------------------------------------
"""  # noqa: E501, W291


def test_the_rate_of_ucx_is_that_of_the_whole_run_and_its_latency_the_median() -> None:
    sample = parse_ucx(UCX, 100_000)
    assert sample.mops == pytest.approx(0.862493)
    assert sample.us == pytest.approx(0.141)


def test_lines_before_the_header_of_ucx_are_ignored() -> None:
    assert parse_ucx("[1668.1] parser.c:1885 UCX  WARN unused env variable\n" + UCX, 100_000) == parse_ucx(UCX, 100_000)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("", id="nothing"),
        pytest.param(UCX.splitlines()[0], id="a header alone"),
        pytest.param("+----+\n| Test: tag match |\n+----+\n", id="the table for people"),
        pytest.param(UCX.replace("100000,", "99999,"), id="too few iterations"),
        pytest.param(UCX.replace("862493", "0"), id="no rate"),
        pytest.param(UCX.replace(",1.159", "", 1), id="a column missing"),
        pytest.param(UCX.replace("0.141", "nonsense"), id="no number"),
    ],
)
def test_output_of_ucx_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_ucx(output, 100_000)


def test_the_last_line_of_a_program_that_failed_is_in_the_error() -> None:
    with pytest.raises(NoResult, match="no usable transports"):
        parse_ucx("select.c:627 UCX  ERROR   no usable transports\n\n", 1)


def test_perftest_gives_the_message_rate_or_the_typical_latency() -> None:
    assert parse_perftest(BANDWIDTH, 20_000).mops == pytest.approx(1.531479)
    assert parse_perftest(LATENCY, 5_000).us == pytest.approx(0.15)


@pytest.mark.parametrize(
    "output",
    [
        "",
        " Couldn't connect to 127.0.0.1:18515\n",
        BANDWIDTH.splitlines()[0],
        BANDWIDTH.replace("1.531479", "0.000000"),
    ],
)
def test_output_of_perftest_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_perftest(output, 20_000)


def rcud(**changes: object) -> str:
    row = {"mops": 9.1, "p50_us": 0.37, "validity": "valid", "reason": ""}
    row |= {"rtt_class": "near", "rtt_before_ns": 112.9, "rtt_after_ns": 113.7}
    return json.dumps({"environment": {}, "rows": [row | changes]})


def test_a_row_of_ours_has_its_class_and_the_longer_round_trip() -> None:
    sample = parse_rcud(rcud())
    assert (sample.mops, sample.near, sample.rtt_ns, sample.doubt) == (9.1, "near", 113.7, "")


def test_a_row_of_ours_that_is_not_valid_says_why() -> None:
    assert parse_rcud(rcud(validity="suspect", reason="spread")).doubt == "suspect: spread"
    with pytest.raises(NoResult, match="the other process died"):
        parse_rcud(rcud(mops=None, reason="the other process died"))
