# SPDX-License-Identifier: Apache-2.0
"""Reads the output of the measuring programs: ucx_perftest, perftest, iperf3 and our own.

These programs can end with status 0 after a failure, so everything but one complete result raises
NoResult.
"""

import json

from cells import NoResult, Sample

GIB = 2**30

# `ucx_perftest -f -v` prints this header, then one line of numbers. Rates ("_mr") are messages a
# second. Latencies are in microseconds, and one way in ping-pong tests. The rank of the percentile
# is the one asked for.
UCX_HEADER = "iterations,{:.1f}_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"


def parse_ucx(text: str, iterations: int, size: int, rank: float = 50.0) -> Sample:
    """Read the output of ucx_perftest, which must have run this number of iterations.

    `us` is the percentile of the latency that was asked for.
    """
    header = UCX_HEADER.format(rank)
    lines = [line.strip() for line in text.splitlines()]
    if header not in lines:
        raise NoResult("ucx_perftest printed no header" + last_words(lines))
    rows = [line for line in lines[lines.index(header) + 1 :] if line]
    if not rows:
        raise NoResult("ucx_perftest printed no result" + last_words(lines))
    try:
        numbers = [float(value) for value in rows[-1].split(",")]
        values = dict(zip(header.split(","), numbers, strict=True))
    except ValueError as error:
        raise NoResult(f"'{rows[-1]}' is not a result line of ucx_perftest") from error
    if values["iterations"] != iterations:
        raise NoResult(f"ucx_perftest ran only {values['iterations']:.0f} of {iterations} iterations")
    rate, latency = values["overall_mr"], numbers[1]
    if rate <= 0 or latency <= 0:
        raise NoResult(f"'{rows[-1]}' has no rate or no latency")
    # An operation at a time: the mean is the time of one.
    return Sample({"mops": rate / 1e6, "gib_per_s": rate * size / GIB, "us": latency, "mean_us": 1e6 / rate})


def parse_perftest(text: str, iterations: int, size: int) -> Sample:
    """Read the output of a program of perftest, ib_send_bw or ib_read_lat for example.

    The fifth column is the message rate or the typical (median) latency. A program that was asked
    for the counter of overruns (-W) prints it below the result.
    """
    lines = [line.strip() for line in text.splitlines()]
    header = next((line for line in lines if line.startswith("#bytes")), None)
    if header is None or header == lines[-1]:
        raise NoResult("perftest printed no result" + last_words(lines))
    fields = lines[lines.index(header) + 1].split()
    try:
        values = [float(value) for value in fields]
        ran = (int(values[0]), int(values[1]))
        fifth = values[4]
        latency = {"us": fifth, "p99_us": values[7]} if "t_typical" in header else None
    except (ValueError, IndexError) as error:
        raise NoResult(f"'{' '.join(fields)}' is not a result line of perftest") from error
    if ran != (size, iterations) or fifth <= 0:
        raise NoResult(f"'{' '.join(fields)}' is not a result of {iterations} iterations of {size} bytes")
    return Sample(latency or {"mops": fifth, "gib_per_s": fifth * 1e6 * size / GIB})


OVERRUNS_FILE = "counters/excessive_buffer_overrun_errors"


def parse_overruns(text: str) -> float:
    """Read the change of the counter of datagrams that found the socket's buffer full."""
    for line in text.splitlines():
        name, _, value = line.strip().partition("=")
        if name == OVERRUNS_FILE and value.isdigit():
            return float(value)
    raise NoResult(f"perftest printed no {OVERRUNS_FILE}")


def parse_rcud(text: str) -> Sample:
    """Read the JSON of `verbena bench rcud` for one cell with one repetition."""
    try:
        (row,) = json.loads(text)["rows"]
    except (ValueError, KeyError) as error:
        raise NoResult("verbena bench rcud printed no row") from error
    if not row.get("mops"):
        raise NoResult(f"verbena bench rcud: {row.get('reason') or 'nothing was delivered'}")
    doubt = "" if row["validity"] == "valid" else f"{row['validity']}: {row['reason']}"
    return Sample({"mops": row["mops"]}, doubt)


def parse_iperf(text: str) -> Sample:
    """Read the JSON of `iperf3 -c`: the rate at the receiver."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NoResult("iperf3 printed no JSON" + last_words(text.splitlines())) from error
    if "error" in found:
        raise NoResult(f"iperf3: {found['error']}")
    try:
        rate = float(found["end"]["sum_received"]["bits_per_second"])
    except (KeyError, TypeError) as error:
        raise NoResult("iperf3 printed no rate of the receiver") from error
    if rate <= 0:
        raise NoResult("iperf3: nothing was received")
    return Sample({"gib_per_s": rate / 8 / GIB})


def parse_own(program: str, text: str) -> dict[str, float | str]:
    """Read the one line of JSON that each of our own small programs prints."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NoResult(f"{program} printed no JSON" + last_words(text.splitlines())) from error
    if not isinstance(found, dict) or not all(value for value in found.values()):
        raise NoResult(f"{program} printed no complete result: {text.strip()}")
    return found


def last_words(lines: list[str]) -> str:
    """Return the last line that is not empty, for an error message: it is often the reason."""
    said = [line for line in lines if line.strip()]
    return f": {said[-1].strip()}" if said else ""
