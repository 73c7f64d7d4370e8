"""Reads the output of the measuring programs: ucx_perftest, perftest and verbena bench rcud.

These programs can end with status 0 after a failure, so everything but one complete result raises
NoResult.
"""

import json
from dataclasses import dataclass


class NoResult(Exception):
    """The program printed no complete result; the text says what it printed instead."""


@dataclass(frozen=True)
class Sample:
    """The result of one run. A program gives a rate, a latency, or both."""

    mops: float | None = None  # 10^6 messages a second
    us: float | None = None  # the median latency one way, in microseconds
    near: str = ""  # class of the core-to-core round trip, if the program measures it
    rtt_ns: float | None = None  # that round trip
    doubt: str = ""  # the reason why the row is not valid; empty if it is


# `ucx_perftest -f -v` prints this header, then one line of numbers. Rates ("_mr") are messages a
# second. Latencies are in microseconds, and one way in ping-pong tests.
UCX_HEADER = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"


def parse_ucx(text: str, iterations: int) -> Sample:
    """Read the output of ucx_perftest, which must have run this number of iterations."""
    lines = [line.strip() for line in text.splitlines()]
    if UCX_HEADER not in lines:
        raise NoResult("ucx_perftest printed no header" + last_words(lines))
    rows = [line for line in lines[lines.index(UCX_HEADER) + 1 :] if line]
    if not rows:
        raise NoResult("ucx_perftest printed no result" + last_words(lines))
    names = UCX_HEADER.split(",")
    try:
        values = dict(zip(names, (float(value) for value in rows[-1].split(",")), strict=True))
    except ValueError as error:
        raise NoResult(f"'{rows[-1]}' is not a result line of ucx_perftest") from error
    if values["iterations"] != iterations:
        raise NoResult(f"ucx_perftest ran only {values['iterations']:.0f} of {iterations} iterations")
    if values["overall_mr"] <= 0 or values["50.0_percentile_lat"] <= 0:
        raise NoResult(f"'{rows[-1]}' has no rate or no latency")
    return Sample(mops=values["overall_mr"] / 1e6, us=values["50.0_percentile_lat"])


def parse_perftest(text: str, iterations: int) -> Sample:
    """Read the output of ib_send_bw, ib_write_bw or ib_send_lat.

    The fifth column is the message rate of the first two programs, and the typical latency one way
    of the last.
    """
    lines = [line.strip() for line in text.splitlines()]
    header = next((line for line in lines if line.startswith("#bytes")), None)
    if header is None or header == lines[-1]:
        raise NoResult("perftest printed no result" + last_words(lines))
    fields = lines[lines.index(header) + 1].split()
    latency = "t_typical" in header
    try:
        values = [float(value) for value in fields]
        wanted = values[4]
        ran = int(values[1])
    except (ValueError, IndexError) as error:
        raise NoResult(f"'{' '.join(fields)}' is not a result line of perftest") from error
    if ran != iterations or wanted <= 0:
        raise NoResult(f"'{' '.join(fields)}' is not a result of {iterations} iterations")
    return Sample(us=wanted) if latency else Sample(mops=wanted)


def parse_rcud(text: str) -> Sample:
    """Read the JSON of `verbena bench rcud` for one cell with one repetition."""
    try:
        (row,) = json.loads(text)["rows"]
    except (ValueError, KeyError) as error:
        raise NoResult("verbena bench rcud printed no row") from error
    if not row.get("mops"):
        raise NoResult(f"verbena bench rcud: {row.get('reason') or 'nothing was delivered'}")
    doubt = "" if row["validity"] == "valid" else f"{row['validity']}: {row['reason']}"
    trips = [row[name] for name in ("rtt_before_ns", "rtt_after_ns") if row.get(name) is not None]
    return Sample(
        mops=row["mops"],
        us=row.get("p50_us"),
        near=row.get("rtt_class", ""),
        rtt_ns=max(trips, default=None),
        doubt=doubt,
    )


def last_words(lines: list[str]) -> str:
    """Return the last line that is not empty, for an error message: it is often the reason."""
    said = [line for line in lines if line]
    return f": {said[-1]}" if said else ""
