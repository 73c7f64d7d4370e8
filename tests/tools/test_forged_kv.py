# SPDX-License-Identifier: Apache-2.0
"""`verbena check --strict` refuses tables of `verbena bench kv` in which figures were changed."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from forging import (
    Change,
    Row,
    check,
    expect_refused,
    expect_refused_in_csv,
    of_repetitions,
    rows_of_csv,
    scaled,
    together,
    with_values,
)
from programs import Programs

# Cells of the table that is measured. Each has the operations of `--iters`.
SET = {"system": "verbena", "op": "SET", "proto": "eager", "value_bytes": 64, "window": 8}
LARGE = SET | {"proto": "rendezvous", "value_bytes": 65536}
GET = LARGE | {"op": "GET"}
AUTO = LARGE | {"proto": "auto"}
ONE_SIDED = GET | {"proto": "one-sided"}
REDIS = {"system": "redis", "op": "GET", "transport": "unix", "value_bytes": 64, "window": 8}
MEMCACHED = REDIS | {"system": "memcached", "transport": "tcp"}


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with a table of ours in rows.json and rows.csv."""
    cells = ("--sizes", "64,64K", "--window", 8, "--proto", "eager,rndv,auto,onesided", "--iters", 500, "--reps", 2)
    more = ("--rx-depth", 64, "--tx-depth", 64, "--seconds-max", 60, "--with-redis", "--with-memcached", "--quiet")
    files = ("--json", "rows.json", "--csv", "rows.csv")
    ran = shared_programs.run("verbena", "bench", "kv", *cells, *more, *files, limit_s=120)
    assert ran.status == 0, ran
    return shared_programs.folder


def document_of(measured: Path) -> dict:
    return json.loads((measured / "rows.json").read_text())


def keep(document: dict, cell: Row) -> Row:
    """Leave one row in the table, and return it."""
    document["rows"] = [row for row in document["rows"] if cell.items() <= row.items()]
    (row,) = document["rows"]
    return row


def follow(row: Row) -> None:
    """Change every figure of the row that follows from its two repetitions, except percentiles."""
    for one in row["repetitions"]:
        one["operations_per_second"] = one["operations"] * 1e9 / one["elapsed_ns"]
        one["payload_bytes"] = one["operations"] * row["value_bytes"]
    rates = sorted(one["operations_per_second"] for one in row["repetitions"])
    middle = (rates[0] + rates[1]) / 2
    for end, rate in (("", middle), ("_low", rates[0]), ("_high", rates[1])):
        row[f"operations_per_second{end}"] = rate
        row[f"gigabytes_per_second{end}"] = rate * (row["value_bytes"] / 1e9)
    row["gibibytes_per_second"] = middle * row["value_bytes"] / 2**30
    row["spread"] = (rates[1] - rates[0]) / middle
    row["operations"] = sum(one["operations"] for one in row["repetitions"])
    row["depth"] = sum(one["latency_sum_ns"] / one["elapsed_ns"] for one in row["repetitions"]) / 2


def followed(change: Change) -> Change:
    return together(of_repetitions(change), follow)


def renamed(**values: object) -> Change:
    """Relabel the row, and its repetitions too: they carry the name of their cell."""

    def change(row: Row) -> None:
        for column, value in values.items():
            for one in row["repetitions"]:
                one["cell"] = one["cell"].replace(f"{column} {row[column]}", f"{column} {value}")
            row[column] = value
        follow(row)

    return change


def with_latencies(factor: int) -> Change:
    """Divide every latency of a repetition, in all places where it stands."""

    def change(one: Row) -> None:
        histogram = one["latency_ns"]
        bucket = [histogram["min"] // factor, histogram["count"]]
        histogram.update(min=bucket[0], max=bucket[0], buckets=[bucket])
        one["latency_sum_ns"] = bucket[0] * bucket[1]
        one.update({name: bucket[0] / 1e3 for name in PERCENTILES})

    return change


def all_percentiles(row: Row) -> None:
    """Take the percentiles of the row from its repetitions, whose latencies are all the same."""
    lower, upper = sorted(one["latency_ns"]["buckets"][0] for one in row["repetitions"])
    row.update({name: upper[0] / 1e3 for name in PERCENTILES})
    row["p50_us"] = (lower if lower[1] * 2 >= lower[1] + upper[1] else upper)[0] / 1e3


def swapped(one: str, other: str) -> Change:
    return lambda row: row.update({one: row[other], other: row[one]})


def first_repetition(change: Change) -> Change:
    return lambda row: change(row["repetitions"][0])


RATES = [f"{unit}_per_second{end}" for unit in ("operations", "gigabytes") for end in ("", "_low", "_high")]
RATES.append("gibibytes_per_second")
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")
Forgery = tuple[Row, Change]
FORGERIES: dict[str, Forgery] = {
    "a higher rate": (SET, scaled(1.5, "operations_per_second")),
    "twice the bytes": (SET, scaled(2, "gigabytes_per_second")),
    "a higher rate with its interval": (SET, scaled(1.9, *RATES)),
    "a lower rate with its interval": (REDIS, scaled(0.3, *RATES)),
    "three times the rate at a third of the latency": (SET, together(scaled(3, *RATES), scaled(1 / 3, *PERCENTILES))),
    "a rate outside of its interval": (SET, lambda row: row.update(operations_per_second_high=1.0)),
    "no interval": (SET, lambda row: row.update({name: None for name in RATES if name[-4:] in ("_low", "high")})),
    "rates raised in the repetitions too": (SET, followed(lambda one: one.update(elapsed_ns=one["elapsed_ns"] // 2))),
    "rates of another system lowered in the repetitions": (
        REDIS, followed(lambda one: one.update(operations=one["operations"] // 2)),
    ),
    "more operations": (SET, followed(scaled(10, "operations"))),
    "one operation more": (SET, followed(lambda one: one.update(operations=one["operations"] + 1))),
    "one operation less": (SET, followed(lambda one: one.update(operations=one["operations"] - 1))),
    "operations changed by one in the row": (SET, lambda row: row.update(operations=row["operations"] + 1)),
    "fewer messages": (SET, with_values(messages_per_operation=1.0)),
    "a message less in the repetitions": (SET, of_repetitions(lambda one: one.update(messages=one["messages"] - 1))),
    "wrong values": (GET, first_repetition(with_values(wrong=1))),
    "a failure": (SET, first_repetition(with_values(failure="the process of clients ended early"))),
    "a failure of another system": (REDIS, first_repetition(with_values(failure="redis does not answer"))),
    "percentiles out of order": (SET, swapped("p50_us", "max_us")),
    "p99 below p50": (SET, with_values(p99_us=0.001)),
    "a maximum below p99": (SET, with_values(max_us=0.001)),
    "a lower p99.99": (SET, scaled(0.5, "p9999_us")),
    "percentiles of zero": (SET, lambda row: row.update(dict.fromkeys(PERCENTILES, 0))),
    "no percentiles": (SET, lambda row: row.update(dict.fromkeys(PERCENTILES))),
    "a histogram reversed": (SET, of_repetitions(lambda one: one["latency_ns"]["buckets"].reverse())),
    "a histogram with a wrong count": (SET, of_repetitions(lambda one: one["latency_ns"].update(count=10**6))),
    "a histogram that lost its slowest bucket": (SET, of_repetitions(lambda one: one["latency_ns"]["buckets"].pop())),
    "a histogram without buckets": (SET, of_repetitions(lambda one: one["latency_ns"].update(buckets=[]))),
    "a histogram that is a word": (SET, of_repetitions(with_values(latency_ns="fast"))),
    "no histogram in one repetition": (SET, first_repetition(lambda one: one.pop("latency_ns"))),
    "short latencies everywhere, the sum forgotten": (
        SET, together(
            of_repetitions(lambda one: (kept := one["latency_sum_ns"], with_latencies(3)(one),
                                        one.update(latency_sum_ns=kept))),
            all_percentiles,
        ),
    ),
    "a sum of latencies that is too small": (
        SET, followed(lambda one: one.update(latency_sum_ns=one["latency_sum_ns"] // 2)),
    ),
    "a sum of latencies that is no whole number": (SET, followed(with_values(latency_sum_ns=1.5))),
    "latencies longer than the run": (SET, followed(lambda one: one.update(elapsed_ns=1000))),
    "Little's law broken from above": (SET, followed(lambda one: one.update(elapsed_ns=one["elapsed_ns"] // 10))),
    "Little's law broken from below": (
        SET, together(followed(lambda one: one.update(elapsed_ns=one["elapsed_ns"] * 1000 + 10**9))),
    ),
    "a negative rate": (SET, scaled(-1, "operations_per_second")),
    "a negative count": (SET, of_repetitions(with_values(messages=-2))),
    "not a number": (SET, with_values(gigabytes_per_second="NaN")),
    "a word for a number": (SET, with_values(operations_per_second="fast")),
    "a word for a count": (SET, of_repetitions(with_values(operations="many"))),
    "a list for a number": (SET, with_values(depth=[1, 2])),
    "a number for a word": (SET, with_values(protocol=1)),
    "another size": (SET, with_values(value_bytes=4096)),
    "another size, with the figures that follow": (SET, together(with_values(value_bytes=4096), follow)),
    "more clients": (SET, with_values(clients=4)),
    "more clients in the repetitions too": (SET, renamed(clients=4)),
    "another transport": (SET, with_values(transport="tcp")),
    "another transport in the repetitions too": (SET, renamed(transport="tcp")),
    "another transport of another system": (REDIS, with_values(transport="tcp")),
    "a wider window": (SET, with_values(window=64)),
    "a wider window in the repetitions too": (SET, renamed(window=64)),
    "a smaller window in the repetitions too": (SET, renamed(window=1)),
    "no warm-up, in the repetitions too": (SET, renamed(warmup=0)),
    "more operations asked for": (SET, renamed(iters=60_000)),
    "a deeper queue": (SET, with_values(rx_depth=6000)),
    "stalled clients": (SET, with_values(stalled=2)),
    "a GET sold as a SET": (GET, renamed(op="SET")),
    "a SET sold as a GET": (LARGE, renamed(op="GET")),
    "eager sold as rendezvous": (SET, renamed(proto="rendezvous")),
    "rendezvous sold as eager": (LARGE, renamed(proto="eager")),
    "rendezvous sold as eager by its protocol": (LARGE, with_values(protocol="eager")),
    "auto that claims the other protocol": (AUTO, with_values(protocol="eager")),
    "rendezvous sold as one-sided": (GET, together(with_values(form=""), renamed(proto="one-sided"))),
    "one-sided sold as rendezvous": (ONE_SIDED, renamed(proto="rendezvous")),
    "a WRITE sold as a READ": (LARGE, renamed(form="write")),
    "redis sold as memcached": (REDIS, with_values(system="memcached")),
    "memcached sold as ours": (MEMCACHED, with_values(system="verbena", proto="auto", transport="rdma")),
    "ours sold as redis": (SET, with_values(system="redis", transport="unix", proto="", protocol="RESP")),
    "without a system": (SET, with_values(system=None)),
    "an unknown system": (SET, with_values(system="aerospike")),
    "an unknown transport": (SET, with_values(transport="pigeon")),
    "an unknown operation": (SET, with_values(op="PUT")),
    "an unknown protocol": (SET, with_values(protocol="telepathy")),
    "an unknown parameter of a sweep": (SET, with_values(varied="luck")),
    "no repetitions": (SET, with_values(repetitions=[])),
    "repetitions that are null": (SET, with_values(repetitions=None)),
    "one repetition left": (SET, lambda row: row["repetitions"].pop()),
    "a repetition copied over the other": (SET, lambda row: row.update(repetitions=row["repetitions"][:1] * 2)),
    "a repetition copied over the other, with the figures that follow": (
        SET, together(
            lambda row: row.update(repetitions=row["repetitions"][:1] * 2), follow,
            lambda row: row.update({name: row["repetitions"][0][name] for name in (*PERCENTILES, "core_to_core_ns")}),
        ),
    ),
    "repetitions that are words": (SET, with_values(repetitions=["fast", "faster"])),
    "repetitions of another kind": (SET, with_values(repetitions=[{"mops": 1.0}, {"mops": 2.0}])),
    "empty repetitions": (SET, with_values(repetitions=[{}, {}])),
    "repetitions without a cell": (SET, of_repetitions(lambda one: one.pop("cell"))),
    "figures hidden as n/a": (
        SET, lambda row: row.update(dict.fromkeys(RATES), operations=None, validity="n/a", reason="not run"),
    ),
    "a rate that says n/a": (SET, with_values(gigabytes_per_second="n/a", validity="n/a")),
    "no spread": (SET, with_values(spread=0)),
    "near cores": (SET, with_values(core_to_core_ns=1.0)),
    "memory registrations hidden": (SET, first_repetition(with_values(registrations=-1))),
    "a count that no repetition has": (SET, of_repetitions(lambda one: one.pop("wrong"))),
    "another number of repetitions": (SET, with_values(reps=20)),
    "operations of many clients": (SET, of_repetitions(with_values(clients=7))),
    "an empty window": (SET, of_repetitions(with_values(depth_max=1))),
    "more bytes in the repetitions": (SET, of_repetitions(scaled(2, "payload_bytes"))),
    "a longer time, so that fewer operations do": (
        SET, together(with_values(seconds_max=0.000001), followed(scaled(1, "operations")),
                      lambda row: row.update(operations=row["operations"] - 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, measured: Path, name: str) -> None:
    cell, forge = FORGERIES[name]
    document = document_of(measured)
    row = keep(document, cell)
    expect_refused(programs, document, row, forge)


def test_the_helpers_of_these_forgeries_change_nothing_by_themselves(programs: Programs, measured: Path) -> None:
    """Otherwise a forgery could be found by a mistake of its helper alone."""
    for cell in (SET, LARGE, REDIS):
        document = document_of(measured)
        follow(keep(document, cell))
        assert check(programs, document).status == 0, cell


@pytest.mark.parametrize("change", [lambda row: None, with_values(reason="x"), with_values(validity="invalid")])
def test_the_same_cell_twice_is_invalid(programs: Programs, measured: Path, change: Change) -> None:
    document = document_of(measured)
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    change(document["rows"][-1])
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


def test_the_repetitions_of_another_row_are_noticed(programs: Programs, measured: Path) -> None:
    """Rendezvous that was asked for, and chosen by auto, have the same counts."""
    document = document_of(measured)
    other = next(row for row in document["rows"] if AUTO.items() <= row.items())
    own = next(row for row in document["rows"] if LARGE.items() <= row.items())
    for name in set(own) - set(LARGE) - {"varied", "form", "clients", "transport"}:
        own[name] = other[name]
    ran = check(programs, document)
    assert ran.status == 3 and "it is one of another cell" in ran.out, ran


def test_a_verdict_in_the_file_counts_for_nothing(programs: Programs, measured: Path) -> None:
    document = document_of(measured)
    row = keep(document, SET)
    row.update(validity="invalid", reason="made so")
    ran = check(programs, document)
    assert ran.status == 0 and "made so" not in ran.out, ran


def test_a_row_of_hardware_above_its_link_is_invalid(programs: Programs, measured: Path) -> None:
    document = document_of(measured)
    keep(document, LARGE)
    document["environment"] |= {"kind": "hardware", "link": "Ethernet, 0.001 Gb/s, two processes on one host"}
    ran = check(programs, document)
    assert ran.status == 3 and "more than the link's 0.001 Gb/s" in ran.out, ran


def test_the_transport_is_that_of_the_environment(programs: Programs, measured: Path) -> None:
    document = document_of(measured)
    keep(document, SET)
    document["environment"]["transport"] = "tcp"
    ran = check(programs, document)
    assert ran.status == 3 and "transport is rdma, but the environment says tcp" in ran.out, ran


@pytest.mark.parametrize(
    ("column", "forge"),
    [
        *((name, lambda text: str(float(text) * 1.5)) for name in (*RATES, "depth")),
        *((name, lambda text: str(float(text) * 1000)) for name in PERCENTILES),
        *((name, lambda text: str(int(text) + 1)) for name in ("operations", "iters", "window", "value_bytes", "reps")),
        ("spread", lambda text: "0"),
        ("protocol", lambda text: "rendezvous"),
        ("repetitions", lambda text: "[]"),
        ("repetitions", lambda text: text.replace('"operations":500', '"operations":501')),
        ("repetitions", lambda text: text.replace('"wrong":0', '"wrong":1')),
        ("gigabytes_per_second", lambda text: ""),
    ],
)
def test_a_forged_field_is_found_in_csv_too(
    programs: Programs, measured: Path, column: str, forge: Callable[[str], str]
) -> None:
    rows = rows_of_csv(measured / "rows.csv")
    row = next(row for row in rows if {name: str(value) for name, value in SET.items()}.items() <= row.items())
    expect_refused_in_csv(programs, row, column, forge(row[column]))


def test_a_table_of_ours_without_its_repetitions_is_invalid(programs: Programs, measured: Path) -> None:
    """Not even if it has only the columns of a published table."""
    document = document_of(measured)
    kept = {"op", "protocol", "value_bytes", "gigabytes_per_second"}
    document["rows"] = [{name: row[name] for name in kept} for row in document["rows"][:1]]
    ran = check(programs, document)
    assert ran.status == 3 and "no repetitions" in ran.out, ran
