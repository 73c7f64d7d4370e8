# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from cells import NoResult, Sample
from outputs import GIB, parse_iperf, parse_overruns, parse_own, parse_perftest, parse_rcud, parse_ucx

# The output of ucx_perftest 1.13 with -f -v: tag_bw of 8 bytes; tag_lat over TCP with -R 99.
UCX = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100000,0.141,1.159,1.159,6.58,6.58,862493,862493
"""
UCX_TAIL = """\
iterations,99.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
5000,390.358,28.626,28.626,0.27,0.27,34933,34933
"""
UCX_REFUSAL = """\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
[1795512312.551388] [vm:23894:0]     ucp_context.c:1276 UCX  ERROR no usable transports/devices (asked tcp on network:wire1 )
[1795512312.551404] [vm:23894:0]    perftest_run.c:334  UCX  ERROR Failed to run test: No such device
"""  # noqa: E501
# ib_write_bw of 1 MiB with -W, at the client and at the server.
BANDWIDTH = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    200              2121.31            1510.24\t\t   0.001510
\tcounters/excessive_buffer_overrun_errors=17

---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       2000          24.12          4704.83      56.98    \t       99.52       \t294.61 \t\t2022.89 \t\t4094.58
---------------------------------------------------------------------------------------
"""  # noqa: E501, W291
# The end of the output of iperf3 3.12 with --json.
IPERF = """\
{
	"end":	{
		"sum_sent":	{
			"start":	0,
			"end":	1.000989,
			"seconds":	1.000989,
			"bytes":	1296826368,
			"bits_per_second":	10364360591.375132,
			"retransmits":	483,
			"sender":	true
		},
		"sum_received":	{
			"start":	0,
			"end":	1.001584,
			"seconds":	1.001584,
			"bytes":	1296826368,
			"bits_per_second":	10358203549.577469,
			"sender":	true
		},
		"sender_tcp_congestion":	"bbr",
		"receiver_tcp_congestion":	"bbr"
	}
}
"""
IPERF_REFUSED = """\
{
	"start":	{
		"connected":	[],
		"version":	"iperf 3.12"
	},
	"intervals":	[],
	"end":	{
	},
	"error":	"error - unable to connect to server: Connection refused"
}
"""


def test_the_rate_of_ucx_is_that_of_the_whole_run_and_its_latency_the_median() -> None:
    values = parse_ucx(UCX, 100_000, 8).values
    assert values["mops"] == pytest.approx(0.862493)
    assert values["us"] == pytest.approx(0.141)
    assert values["mean_us"] == pytest.approx(1.159, rel=1e-3)
    assert values["gib_per_s"] == pytest.approx(862493 * 8 / GIB)


def test_the_percentile_that_was_asked_for_is_the_latency() -> None:
    assert parse_ucx(UCX_TAIL, 5_000, 8, rank=99.0).values["us"] == pytest.approx(390.358)
    with pytest.raises(NoResult):
        parse_ucx(UCX_TAIL, 5_000, 8)


def test_lines_before_the_header_of_ucx_are_ignored() -> None:
    noise = "[1668.1] parser.c:1885 UCX  WARN unused env variable\n"
    assert parse_ucx(noise + UCX, 100_000, 8) == parse_ucx(UCX, 100_000, 8)


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
        pytest.param(UCX_REFUSAL, id="no transport"),
    ],
)
def test_output_of_ucx_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_ucx(output, 100_000, 8)


def test_the_last_line_of_a_program_that_failed_is_in_the_error() -> None:
    with pytest.raises(NoResult, match="no usable transports"):
        parse_ucx("select.c:627 UCX  ERROR   no usable transports\n\n", 1, 8)


def test_perftest_gives_the_message_rate_and_the_bandwidth() -> None:
    values = parse_perftest(BANDWIDTH, 200, 1 << 20).values
    assert values == {"mops": pytest.approx(0.00151), "gib_per_s": pytest.approx(1510 / 1024)}


def test_perftest_gives_the_typical_latency_and_the_99th_percentile() -> None:
    assert parse_perftest(LATENCY, 2_000, 8).values == {"us": 56.98, "p99_us": 2022.89}


@pytest.mark.parametrize(
    "output",
    [
        "",
        " Couldn't connect to 127.0.0.1:18515\n",
        BANDWIDTH.splitlines()[1],
        BANDWIDTH.replace("0.001510", "0.000000"),
        BANDWIDTH.replace("1048576", "524288"),
        BANDWIDTH.replace("  200  ", "  199  "),
    ],
)
def test_output_of_perftest_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_perftest(output, 200, 1 << 20)


def test_perftest_gives_the_datagrams_that_overflowed() -> None:
    assert parse_overruns(BANDWIDTH) == 17
    with pytest.raises(NoResult):
        parse_overruns(LATENCY)


def rcud(**changes: object) -> str:
    row = {"mops": 9.1, "p50_us": 0.37, "validity": "valid", "reason": ""}
    return json.dumps({"environment": {}, "rows": [row | changes]})


def test_a_row_of_rcud_has_its_rate() -> None:
    assert parse_rcud(rcud()) == Sample({"mops": 9.1})


def test_a_row_of_rcud_that_is_not_valid_says_why() -> None:
    assert parse_rcud(rcud(validity="suspect", reason="spread")).doubt == "suspect: spread"
    with pytest.raises(NoResult, match="the other process died"):
        parse_rcud(rcud(mops=None, reason="the other process died"))


def test_the_rate_of_iperf_is_that_of_its_receiver() -> None:
    assert parse_iperf(IPERF).values["gib_per_s"] == pytest.approx(1296826368 / 1.001584 / GIB)


@pytest.mark.parametrize("output", ["", "{}", IPERF.replace("10358203549.577469", "0"), IPERF_REFUSED])
def test_output_of_iperf_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_iperf(output)


def test_the_error_of_iperf_is_passed_on() -> None:
    with pytest.raises(NoResult, match="Connection refused"):
        parse_iperf(IPERF_REFUSED)


@pytest.mark.parametrize(
    ("output", "values"),
    [
        ('{"rtt_ns": 264.6, "class": "far"}\n', {"rtt_ns": 264.6, "class": "far"}),
        ('{"gib_per_s": 62.388}\n', {"gib_per_s": 62.388}),
        ('{"mops": 4.126746}\n', {"mops": 4.126746}),
        ('{"empty_poll_ns": 50.31, "message_ns": 265.55}\n', {"empty_poll_ns": 50.31, "message_ns": 265.55}),
        ('{"p50_us": 0.747, "p99_us": 3.439}\n', {"p50_us": 0.747, "p99_us": 3.439}),
        ('{"mops": 21.508889, "received": 4295936}\n', {"mops": 21.508889, "received": 4295936}),
    ],
)
def test_our_small_programs_print_one_line_of_json(output: str, values: dict[str, object]) -> None:
    assert parse_own("peers", output) == values


@pytest.mark.parametrize("output", ["", "1.5\n", '{"mops": 0.000000}\n', "peers_threads: no RDMA device\n"])
def test_output_of_our_small_programs_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(NoResult):
        parse_own("peers", output)
