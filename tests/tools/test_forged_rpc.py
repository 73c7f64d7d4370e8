"""`verbena check --strict` refuses tables of `verbena bench rpc` in which figures were changed."""

import copy
import csv
import json
from pathlib import Path
from statistics import median

import pytest
from forging import (
    Change,
    Row,
    check,
    histogram,
    of_first,
    of_repetitions,
    scaled,
    swapped,
    together,
    with_values,
)
from programs import ROOT, Programs

SIZES = {"128B": 128, "4K": 4096}
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")
CELL = {
    *("request_size", "concurrency", "system", "transport", "mode", "ablation", "without", "recv_mode", "memory"),
    *("connections", "seconds"),
}
RATES = ("qps", "gigabits_per_second", "qps_low", "qps_high")


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with a table of ours in rows.json and rows.csv, and ablation.json.

    A run takes a second, because next to nothing under way is impossible only then.
    """
    bench = ("verbena", "bench", "rpc", "--quiet", "--warmup", 0.05, "--reps", 2, "--sizes", 128)
    cells = ("--duration", 1, "--concurrency", "1,16", "--json", "rows.json", "--csv", "rows.csv")
    ran = shared_programs.run(*bench, *cells, limit_s=120)
    assert ran.status == 0, ran
    ablations = ("--ablate", "inline,coalescing,send-queue,pool,connection-pool", "--transport", "rdma")
    few = ("--duration", 0.1, "--concurrency", 4, "--json", "ablation.json")
    ran = shared_programs.run(*bench, *ablations, *few, limit_s=120)
    assert ran.status == 0, ran
    return shared_programs.folder


@pytest.fixture
def document(measured: Path) -> dict:
    return json.loads((measured / "rows.json").read_text())


def leave(document: dict, transport: str, concurrency: int = 16) -> Row:
    """Leave one row in the table, and return it."""
    wanted = {"transport": transport, "concurrency": concurrency}
    document["rows"] = [row for row in document["rows"] if wanted.items() <= row.items()]
    return document["rows"][0]


def summarized(row: Row) -> None:
    """Compute the rates of a row from its repetitions, as the program does."""
    for one in row["repetitions"]:
        one["qps"] = one["requests"] / one["seconds"]
    rates = sorted(one["qps"] for one in row["repetitions"])
    row.update(qps=median(rates), qps_low=rates[0], qps_high=rates[-1], spread=(rates[-1] - rates[0]) / median(rates))
    row["gigabits_per_second"] = row["qps"] * SIZES[row["request_size"]] * 8 / 1e9
    row["requests"] = sum(one["requests"] for one in row["repetitions"])
    row["mean_us"] = sum(one["latency_sum_us"] for one in row["repetitions"]) / row["requests"]
    for name, keys in (
        ("cpu_us_per_request", ("client_cpu_s", "server_cpu_s")),
        ("server_cpu_us_per_request", ("server_cpu_s",)),
    ):
        row[name] = median(sum(one[key] for key in keys) * 1e6 / one["requests"] for one in row["repetitions"])


def follows(change: Change) -> Change:
    """Change each repetition, and the figures of the row that follow from it, but no latencies."""
    return together(of_repetitions(change), summarized)


def times(count: int) -> Change:
    """Multiply the requests of a repetition, with all counts that must be at least as many."""

    def change(one: Row) -> None:
        for name in ("requests", "served", "frames", "messages", "payload_bytes", "rdma_frames", "rdma_frames_inline"):
            one[name] *= count

    return change


def times_with_histogram(count: int) -> Change:
    def change(one: Row) -> None:
        times(count)(one)
        one["latency_sum_us"] *= count
        one["latency_ns"]["count"] *= count
        for bucket in one["latency_ns"]["buckets"]:
            bucket[1] *= count

    return change


def all_at(microseconds: int) -> Change:
    """Give all requests of a row the same latency."""
    nanoseconds = microseconds * 1000

    def change(row: Row) -> None:
        for one in row["repetitions"]:
            count = one["requests"]
            one.update(dict.fromkeys(PERCENTILES, float(microseconds)), latency_sum_us=float(count * microseconds))
            one["latency_ns"] = {
                "count": count,
                "min": nanoseconds,
                "max": nanoseconds,
                "buckets": [[nanoseconds, count]],
            }
        row.update(dict.fromkeys((*PERCENTILES, "p99_us_low", "p99_us_high"), float(microseconds)))
        summarized(row)

    return change


def as_size(text: str) -> Change:
    def change(row: Row) -> None:
        row.update(request_size=text, gigabits_per_second=row["qps"] * SIZES[text] * 8 / 1e9)

    return change


FORGERIES: dict[str, tuple[str, Change]] = {
    "a higher rate": ("tcp", scaled(1.5, "qps")),
    "a higher rate and throughput": ("tcp", scaled(1.5, "qps", "gigabits_per_second")),
    "a higher rate with its interval": ("rdma", scaled(1.5, *RATES)),
    "a lower rate of the others": ("tcp", scaled(0.5, *RATES)),
    "three times the rate at a third of the latency": (
        "rdma", together(scaled(3, *RATES), scaled(1 / 3, *PERCENTILES, "mean_us", "p99_us_low", "p99_us_high")),
    ),
    "a higher throughput": ("tcp", scaled(1.1, "gigabits_per_second")),
    "three times the requests, in the repetitions too": ("tcp", follows(times(3))),
    "three times the requests, with their histograms": ("tcp", follows(times_with_histogram(3))),
    "a third of the time, in the repetitions too": ("rdma", follows(scaled(1 / 3, "seconds"))),
    "a third of the time, and the settings say so": (
        "rdma", together(follows(scaled(1 / 3, "seconds")), scaled(1 / 3, "seconds")),
    ),
    "next to no latency": ("tcp", all_at(0)),
    "a latency of a millisecond": ("rdma", all_at(1000)),
    "one request more": ("tcp", lambda row: row.update(requests=row["requests"] + 1)),
    "one request more in a repetition": (
        "tcp", together(of_first(lambda one: one.update(requests=one["requests"] + 1)), summarized),
    ),
    "served less than was answered": ("tcp", of_first(with_values(served=1))),
    "failed requests": ("tcp", of_first(with_values(failed=3))),
    "failed requests hidden by a negative count": ("tcp", of_first(with_values(failed=-1))),
    "a repetition that failed": ("rdma", of_first(with_values(failure="the server's process died"))),
    "no failure known": ("rdma", of_first(lambda one: one.pop("failure"))),
    "no requests": ("tcp", of_repetitions(with_values(requests=0))),
    "percentiles out of order": ("tcp", swapped("p50_us", "p90_us")),
    "the maximum below P99": ("rdma", lambda row: row.update(max_us=row["p99_us"] / 2)),
    "a P99.9 that was not measured": ("tcp", scaled(0.9, "p999_us")),
    "a P99.99 that was not measured": ("tcp", scaled(0.9, "p9999_us")),
    "an early P99 in the repetitions too": (
        "tcp", together(scaled(0.9, "p99_us", "p99_us_low", "p99_us_high"), of_repetitions(scaled(0.9, "p99_us"))),
    ),
    "a narrow interval of P99": ("rdma", lambda row: row.update(p99_us_low=row["p99_us"], p99_us_high=row["p99_us"])),
    "no interval": ("rdma", with_values(qps_low=None, qps_high=None)),
    "no spread": ("tcp", with_values(spread=0)),
    "a lower mean": ("tcp", scaled(0.9, "mean_us")),
    "a lower mean in the repetitions too": ("tcp", follows(scaled(0.9, "latency_sum_us"))),
    "a histogram backwards": ("tcp", histogram(lambda of: of["buckets"].reverse())),
    "a histogram with another count": ("tcp", histogram(lambda of: of.update(count=of["count"] + 1))),
    "a histogram without its tail": (
        "tcp", histogram(lambda of: of.update(count=of["count"] - of["buckets"].pop()[1], max=of["buckets"][-1][0])),
    ),
    "a histogram of fewer requests": ("tcp", histogram(lambda of: of["buckets"][0].__setitem__(1, 10**9))),
    "a histogram that is a word": ("tcp", of_first(with_values(latency_ns="fast"))),
    "no histograms": ("tcp", of_repetitions(lambda one: one.pop("latency_ns"))),
    "one histogram fewer": ("rdma", of_first(lambda one: one.pop("latency_ns"))),
    "a negative rate": ("tcp", with_values(qps=-1.0)),
    "a word for a rate": ("tcp", with_values(qps="fast")),
    "no number": ("tcp", with_values(p99_us="NaN")),
    "truth for a rate": ("tcp", with_values(qps=True)),
    "half a connection": ("tcp", with_values(connections=0.5)),
    "less processor time": ("tcp", scaled(0.5, "cpu_us_per_request")),
    "less processor time of the server": ("tcp", scaled(0.5, "server_cpu_us_per_request")),
    "more processor time than the machine has": ("tcp", follows(scaled(1000, "client_cpu_s"))),
    "larger batches": ("tcp", scaled(2, "requests_per_message")),
    "more messages than frames": ("tcp", of_repetitions(lambda one: one.update(messages=one["frames"] + 1))),
    "everything inline": ("rdma", with_values(inline_share=1.5)),
    "registrations hidden": ("rdma", with_values(registrations=None)),
    "less pinned memory": ("rdma", scaled(0.1, "pinned_kib_per_connection")),
    "another size": ("tcp", as_size("4K")),
    "a size in other words": ("tcp", with_values(request_size="0128B")),
    "fewer in flight": ("tcp", with_values(concurrency=4)),
    "more in flight": ("tcp", with_values(concurrency=17)),
    "more connections": ("tcp", with_values(connections=16)),
    "TCP sold as RDMA": ("tcp", with_values(transport="rdma", recv_mode="srq", memory="user")),
    "RDMA sold as TCP": ("rdma", with_values(transport="tcp", recv_mode="", memory="")),
    "sink sold as echo": ("tcp", with_values(mode="echo")),
    "ours sold as gRPC": ("tcp", with_values(system="grpc")),
    "buffers of each connection": ("rdma", with_values(recv_mode="per_connection")),
    "registered memory": ("rdma", with_values(memory="registered")),
    "an ablation": ("rdma", with_values(ablation="inline", without="inline")),
    "an unknown system": ("tcp", with_values(system="brpc")),
    "an unknown transport": ("tcp", with_values(transport="udp")),
    "an unknown mode": ("tcp", with_values(mode="both")),
    "an unknown ablation": ("rdma", with_values(ablation="luck")),
    "no system": ("tcp", with_values(system=None)),
    "no transport": ("tcp", with_values(transport=None)),
    "another cell, and its repetitions say so": (
        "tcp", together(as_size("4K"), of_repetitions(with_values(cell="4K x 16 over tcp"))),
    ),
    "RDMA sold as TCP, and its repetitions say so": (
        "rdma",
        together(
            with_values(transport="tcp", recv_mode="", memory=""),
            of_repetitions(with_values(cell="128B x 16 over tcp")),
        ),
    ),
    "without repetitions": ("tcp", with_values(repetitions=[])),
    "repetitions that are null": ("tcp", with_values(repetitions=None)),
    "one repetition left": ("tcp", lambda row: row["repetitions"].pop()),
    "one repetition twice": ("tcp", lambda row: row["repetitions"].append(row["repetitions"][0])),
    "repetitions that are words": ("tcp", with_values(repetitions=["fast", "faster"])),
    "repetitions that are rates": ("tcp", with_values(repetitions=[1e6, 1e6])),
    "repetitions of another experiment": (
        "tcp", with_values(repetitions=[{"iters": 1, "posted": 1, "mops": 1.0, "failure": ""}]),
    ),
    "repetitions without counts": ("tcp", of_repetitions(lambda one: one.pop("requests"))),
    "counts that are words": ("tcp", of_repetitions(with_values(served="many"))),
    "counts with a fraction": ("tcp", of_repetitions(with_values(served=1e9 + 0.5))),
    "figures hidden as n/a": ("tcp", with_values(**dict.fromkeys((*RATES, *PERCENTILES)))),
    "all of it hidden as n/a": (
        "tcp", lambda row: row.update(dict.fromkeys(set(row) - CELL), repetitions=[], reason="too slow"),
    ),
    "figures that are the text n/a": ("tcp", with_values(**dict.fromkeys((*RATES, *PERCENTILES), "n/a"))),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, document: dict, name: str) -> None:
    transport, forge = FORGERIES[name]
    row = leave(document, transport)
    assert check(programs, document).status == 0, "the row as it was measured"
    forge(row)
    row["validity"], row["reason"] = "valid", ""
    ran = check(programs, document)
    assert ran.status == 3 and ran.err == "", ran
    assert ran.out.startswith("invalid ") and ran.out.endswith("1 rows: 1 invalid, 0 suspect\n"), ran


def test_a_verdict_written_by_hand_changes_nothing(programs: Programs, document: dict) -> None:
    row = leave(document, "tcp")
    for validity in ("invalid", "n/a", "perfect"):
        row["validity"], row["reason"] = validity, "it was said"
        ran = check(programs, document)
        assert ran.status == 0 and "it was said" not in ran.out, ran


def test_the_same_cell_twice_is_invalid(programs: Programs, document: dict) -> None:
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


def test_rows_that_exchange_their_figures_are_invalid(programs: Programs, document: dict) -> None:
    few, many = document["rows"][:2]
    for name in set(few) - {"concurrency", "connections"}:
        few[name], many[name] = many[name], few[name]
    ran = check(programs, document)
    assert ran.status == 3 and "it is one of the cell" in ran.out and "4 rows: 2 invalid" in ran.out, ran


def test_a_row_of_hardware_above_its_link_is_invalid(programs: Programs, document: dict) -> None:
    leave(document, "rdma")
    document["environment"] |= {"kind": "hardware", "link": "Ethernet, 0.0001 Gb/s, two processes on one host"}
    ran = check(programs, document)
    assert ran.status == 3 and "more than the link's 0.0001 Gb/s" in ran.out, ran


def test_a_software_device_is_not_sold_as_hardware(programs: Programs, document: dict) -> None:
    document["environment"] |= {"kind": "hardware"}
    ran = check(programs, document)
    assert ran.status == 3 and "vb_lo is a software device" in ran.out, ran


def test_a_row_that_lacks_a_repetition_is_suspect(programs: Programs, document: dict) -> None:
    """A forger who leaves out the worse repetition has to leave out one of each row."""
    row = document["rows"][0]
    del row["repetitions"][1:]
    (left,) = row["repetitions"]
    summarized(row)
    row.update({name: left[name] for name in PERCENTILES})
    row.update(p99_us_low=left["p99_us"], p99_us_high=left["p99_us"], connections_made=left["connections"])
    row["requests_per_message"] = left["frames"] / left["messages"]
    ran = check(programs, document)
    assert "1 repetitions, but other rows have 2" in ran.out, ran


BEHAVIOURS = ("inline", "coalescing", "pool", "connection-pool")


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_row_with_a_behaviour_is_not_sold_as_one_without_it(
    programs: Programs, measured: Path, behaviour: str
) -> None:
    document = json.loads((measured / "ablation.json").read_text())
    document["rows"] = [row for row in document["rows"] if row["ablation"] == behaviour and not row["without"]]
    (row,) = document["rows"]
    assert check(programs, document).status == 0, "the row as it was measured"
    row["without"] = behaviour
    for repetition in row["repetitions"]:
        repetition["cell"] = repetition["cell"].replace("with ", "without ")
    ran = check(programs, document)
    assert ran.status == 3 and f"{behaviour} was on in a row without it" in ran.out, ran


CSV_FORGERIES = (
    *("qps", "gigabits_per_second", "qps_low", "spread", "mean_us", "p90_us", "p99_us_high", "max_us", "requests"),
    *("cpu_us_per_request", "connections", "concurrency", "system", "transport"),
)


@pytest.mark.parametrize("column", CSV_FORGERIES)
def test_a_forged_figure_is_found_in_csv_too(programs: Programs, measured: Path, column: str) -> None:
    row = csv_row(measured)
    value = {"system": "capnp", "transport": "rdma"}.get(column)
    check_csv(programs, row, 0)
    check_csv(programs, row | {column: value or str(float(row[column]) * 3)}, 3)


def test_rates_that_were_forged_in_the_repetitions_of_csv_too_are_invalid(programs: Programs, measured: Path) -> None:
    row: Row = dict(csv_row(measured))
    row["repetitions"] = json.loads(row["repetitions"])
    follows(times(3))(row)
    row["repetitions"] = json.dumps(row["repetitions"])
    check_csv(programs, row, 3)


def test_our_figures_under_the_published_columns_alone_are_not_taken_for_published_ones(
    programs: Programs, document: dict
) -> None:
    published = (ROOT / "bench" / "published" / "rpc_rdma.csv").read_text().splitlines()[0].split(",")
    row = leave(document, "tcp")
    document["rows"] = [{name: row[name] for name in published}]
    ran = check(programs, document)
    assert ran.status == 3 and "no repetitions" in ran.out, ran


def csv_row(measured: Path) -> dict[str, str]:
    with open(measured / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return next(row for row in rows if (row["transport"], row["concurrency"]) == ("tcp", "16"))


def check_csv(programs: Programs, row: Row, status: int) -> None:
    forged = programs.folder / "forged.csv"
    with forged.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    ran = programs.run("verbena", "check", "--strict", forged)
    assert ran.status == status, ran
