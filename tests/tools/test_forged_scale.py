# SPDX-License-Identifier: Apache-2.0
"""`verbena check --strict` refuses tables of many clients in which figures were changed."""

import copy
import json
import shutil
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

OURS = {"system": "verbena", "transport": "rdma", "rate": 0, "shared_qps": 0}
PACED = OURS | {"rate": 200}
TCP = OURS | {"transport": "tcp"}
SHARED = OURS | {"shared_qps": 2}
REDIS = {"system": "redis"}


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with rows of all these cells in rows.json and rows.csv."""
    cells = ("--clients", 6, "--rate", "0,200", "--qps", "0,2", "--reps", 2, "--seconds", 1, "--warmup", 0.05)
    redis = ("--with-redis",) if shutil.which("redis-benchmark") and shutil.which("redis-server") else ()
    files = ("--json", "rows.json", "--csv", "rows.csv")
    ran = shared_programs.run("verbena", "bench", "scale", "--quiet", *cells, *redis, *files)
    assert ran.status == 0, ran
    return shared_programs.folder


def cell_of(document: dict, wanted: Row) -> Row:
    """Leave one row in the table, and return it."""
    document["rows"] = [row for row in document["rows"] if wanted.items() <= row.items()]
    if not document["rows"]:
        pytest.skip("redis is not installed")
    return document["rows"][0]


def divided(by: int, *names: str) -> Change:
    """Divide counts, which stay whole."""

    def change(one: Row) -> None:
        for name in names:
            one[name] //= by

    return change


def everywhere(**values: object) -> Change:
    """Change a value of the cell in the row and in its evidence."""
    return together(with_values(**values), of_repetitions(lambda one: one["cell"].update(values)))


def in_histogram(name: str, change: Change) -> Change:
    return of_repetitions(lambda one: change(one[name]))


def without_histograms(row: Row) -> None:
    for one in row["repetitions"]:
        del one["latency_ns"], one["connect_ns"]


def shorter_latencies(one: Row) -> None:
    one["latency_sum_ns"] //= 100
    for name in one:
        if name.startswith("latency_") and name.endswith("_ms"):
            one[name] /= 100


def raised(factor: int) -> Change:
    """Change the counts of each repetition, and the row's figures that follow from them."""

    def change(row: Row) -> None:
        for one in row["repetitions"]:
            one["counted"] *= factor
        rates = sorted(one["counted"] * 1e9 / one["counted_ns"] for one in row["repetitions"])
        row.update(
            messages_per_second=sum(rates) / 2,
            messages_per_second_low=rates[0],
            messages_per_second_high=rates[1],
            spread=(rates[1] - rates[0]) / sum(rates) * 2,
        )

    return change


def hide_failures(row: Row) -> None:
    """Say that a client failed in a repetition, and leave the row's success as it is."""
    row["repetitions"][0].update(good=5, failed_lost=1)


RATES = ("messages_per_second", "messages_per_second_low", "messages_per_second_high")
FORGERIES: dict[str, tuple[Row, Change]] = {
    "a higher rate": (OURS, scaled(1.03, "messages_per_second")),
    "a higher rate with its interval": (OURS, scaled(1.5, *RATES)),
    "a lower rate with its interval, to slander": (TCP, scaled(0.5, *RATES)),
    "three times the rate at a third of the latency": (
        OURS, together(scaled(3, *RATES), scaled(1 / 3, "avg_latency_ms")),
    ),
    "more counted than all echoes": (OURS, raised(3)),
    "a shorter time with another window": (OURS, of_repetitions(scaled(2, "window_ns"))),
    "one more echo of the server": (OURS, together(
        with_values(server_echoes=None), of_repetitions(lambda one: one.update(server_echoes=one["server_echoes"] + 1)),
    )),
    "one echo less at both ends": (OURS, of_repetitions(
        lambda one: one.update(server_echoes=one["server_echoes"] - 1, echoes=one["echoes"] - 1)
    )),
    "more echoes at both ends": (OURS, of_repetitions(scaled(3, "server_echoes", "echoes"))),
    "success above 100": (OURS, with_values(success_percent=101)),
    "failures hidden in the row": (OURS, hide_failures),
    "a client that is missing": (OURS, of_repetitions(with_values(good=5))),
    "clients that failed on paper": (OURS, with_values(failed_connect=30)),
    "fewer clients at once": (OURS, together(
        with_values(peak_clients=5), of_repetitions(with_values(peak_clients=5, queue_pairs=5)),
    )),
    "fewer threads": (OURS, together(with_values(peak_threads=1), of_repetitions(with_values(threads=1)))),
    "p99 below p50": (OURS, with_values(latency_p99_ms=0.000001)),
    "a maximum below p99": (OURS, with_values(latency_max_ms=0.000001)),
    "a p99 that was not measured": (OURS, together(
        with_values(connect_p99_ms=0.1), of_repetitions(with_values(connect_p99_ms=0.1)),
    )),
    "a mean connect time below its histogram": (OURS, together(
        scaled(0.5, "avg_connect_ms"), of_repetitions(divided(2, "connect_sum_ns")),
    )),
    "a histogram in reverse": (OURS, in_histogram("latency_ns", lambda of: of["buckets"].reverse())),
    "a histogram of another count": (OURS, in_histogram("latency_ns", with_values(count=10**7))),
    "half of the latencies left out": (OURS, of_repetitions(divided(2, "latencies", "latency_sum_ns"))),
    "latencies of nobody, without histograms": (OURS, together(
        without_histograms, of_repetitions(shorter_latencies), with_values(latency_max_ms=None),
    )),
    "negative memory": (OURS, with_values(server_kib_per_connection=-5)),
    "less memory for a connection": (OURS, scaled(0.1, "server_kib_per_connection")),
    "a peak below what is resident": (OURS, of_repetitions(with_values(resident_peak=1 << 20))),
    "NaN": (OURS, with_values(avg_latency_ms="nan")),
    "a word for a number": (OURS, with_values(jain="fair")),
    "counts that are words": (OURS, of_repetitions(with_values(echoes="many"))),
    "a negative count": (OURS, of_repetitions(with_values(connected=-6))),
    "a fraction of an echo": (OURS, of_repetitions(with_values(echoes=1000.5))),
    "a hundred times the connections": (OURS, together(
        scaled(100, "connections_per_s"), of_repetitions(divided(100, "connecting_ns")),
    )),
    "a larger message": (OURS, with_values(size=65536)),
    "a larger message everywhere": (OURS, everywhere(size=65536)),
    "more clients": (OURS, with_values(clients=5000, peak_clients=5000)),
    "more clients everywhere": (OURS, together(everywhere(clients=5000), with_values(peak_clients=5000))),
    "TCP sold as RDMA": (TCP, with_values(transport="rdma")),
    "TCP sold as RDMA everywhere": (TCP, everywhere(transport="rdma")),
    "RDMA sold as TCP everywhere": (OURS, everywhere(transport="tcp")),
    "another window": (OURS, with_values(window=4)),
    "another engine": (OURS, with_values(engine="uring")),
    "in clear": (OURS, with_values(connect="clear")),
    "own queue pairs for logical clients everywhere": (SHARED, everywhere(shared_qps=0)),
    "fewer shared queue pairs everywhere": (SHARED, everywhere(shared_qps=1)),
    "logical clients that are not distinct": (SHARED, together(
        with_values(distinct_ids=5), of_repetitions(with_values(distinct_ids=5)),
    )),
    "a full load sold as an offered one everywhere": (OURS, everywhere(rate=100)),
    "an offered load sold as a full one everywhere": (PACED, everywhere(rate=0)),
    "a lower offered rate everywhere": (PACED, everywhere(rate=20)),
    "longer than it was everywhere": (OURS, everywhere(seconds=30)),
    "fewer messages than were sent, everywhere": (OURS, everywhere(messages=1)),
    "pauses that were not made, everywhere": (OURS, everywhere(think_ms=1000)),
    "beside stalled handshakes": (OURS, with_values(stalled=100)),
    "without an optimization": (OURS, with_values(without="pooling")),
    "redis sold as ours": (REDIS, with_values(system="verbena")),
    "ours sold as redis": (OURS, everywhere(system="redis")),
    "redis with a tenth of its rate": (REDIS, together(
        scaled(0.1, *RATES), of_repetitions(scaled(0.01, "requests_per_s")),
    )),
    "redis with memory that was not measured": (REDIS, with_values(server_kib_per_connection=500)),
    "repetitions of redis": (OURS, of_repetitions(
        lambda one: [one.clear(), one.update(cell={}, failure="", requests_per_s=1e6)]
    )),
    "a server elsewhere": (OURS, with_values(server="elsewhere")),
    "a server elsewhere, everywhere": (OURS, everywhere(server="elsewhere")),
    "a server that reports nothing": (OURS, of_repetitions(with_values(server_echoes=None))),
    "no repetitions": (OURS, with_values(repetitions=[])),
    "one repetition left": (OURS, lambda row: row["repetitions"].pop()),
    "empty repetitions": (OURS, with_values(repetitions=[{}, {}])),
    "repetitions that are words": (OURS, with_values(repetitions=["fast", "faster"])),
    "repetitions that are a word": (OURS, with_values(repetitions="fast")),
    "a repetition of another row": (OURS, of_repetitions(lambda one: one["cell"].update(clients=7))),
    "a repetition without its cell": (OURS, of_repetitions(lambda one: one.pop("cell"))),
    "a repetition whose cell is a word": (OURS, of_repetitions(with_values(cell="rdma"))),
    "a repetition that failed": (OURS, of_repetitions(with_values(failure="fork: no memory"))),
    "n/a that hides a figure": (OURS, with_values(validity="n/a", messages_per_second=None)),
    "n/a that hides success": (OURS, with_values(validity="n/a", success_percent=500)),
    "no spread": (OURS, with_values(spread=0)),
    "an unknown system": (OURS, everywhere(system="memcached")),
    "an unknown transport": (OURS, everywhere(transport="pigeon")),
    "an unknown engine": (OURS, everywhere(engine="steam")),
    "an unknown way to connect": (OURS, everywhere(connect="post")),
    "an unknown optimization": (OURS, everywhere(without="everything")),
    "TCP by rdma_cm": (TCP, everywhere(connect="rdmacm")),
    "no CPU": (OURS, with_values(server_cpu_percent=0)),
    "negative CPU": (OURS, of_repetitions(with_values(clients_cpu_ns=-347))),
    "fewer posts than echoes": (OURS, of_repetitions(with_values(send_posts=1))),
    "fewer doorbells": (OURS, scaled(0.5, "doorbells_per_echo", "doorbells_per_echo_low", "doorbells_per_echo_high")),
    "fairer": (OURS, together(with_values(jain=1), of_repetitions(with_values(echoes_squared=1)))),
    "cores that are near": (OURS, with_values(round_trip_ns=60.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_is_invalid_and_the_sentence_says_why(programs: Programs, measured: Path, name: str) -> None:
    wanted, forge = FORGERIES[name]
    document = json.loads((measured / "rows.json").read_text())
    row = cell_of(document, wanted)
    expect_refused(programs, document, row, forge)


def test_a_rate_whose_time_was_forged_in_the_repetitions_too_is_suspect(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    row = cell_of(document, OURS)
    for one in row["repetitions"]:
        one["window_ns"] //= 3
        one["counted_ns"] //= 3
        for name in ("server_cpu_ns", "clients_cpu_ns", "server_switches", "clients_switches"):
            one[name] = None
    row.update(dict.fromkeys(("server_cpu_percent", "clients_cpu_percent"), None))
    row.update(dict.fromkeys(("server_switches_per_s", "clients_switches_per_s"), None))
    raised(1)(row)
    ran = check(programs, document)
    assert ran.out.startswith("suspect ") and "measured for" in ran.out, ran


def test_the_same_cell_twice_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    document["rows"].append(copy.deepcopy(document["rows"][0]))
    ran = check(programs, document)
    assert ran.status == 3 and "the same cell as row 1" in ran.out, ran


def test_a_row_of_hardware_above_its_link_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    cell_of(document, OURS)
    document["environment"] |= {"kind": "hardware", "link": "Ethernet, 0.0001 Gb/s, processes on one host"}
    ran = check(programs, document)
    assert ran.status == 3 and "more than the link's 0.0001 Gb/s" in ran.out, ran


def test_capacity_that_does_not_follow_from_the_rows_is_invalid(programs: Programs) -> None:
    words = ("--capacity", "--clients", "10,20", "--reps", 1, "--json", "c.json", "--quiet")
    ran = programs.run("verbena", "bench", "scale", *words, limit_s=60)
    assert ran.status == 0, ran
    document = json.loads((programs.folder / "c.json").read_text())
    assert check(programs, document).status == 0
    lines = [name for name in document["environment"] if name.startswith("capacity ")]
    assert len(lines) == 5
    for name, text in ((lines[0], "8.50 KiB"), ("capacity_parts", "a queue pair"), ("capacity_resources", "none")):
        forged = copy.deepcopy(document)
        forged["environment"][name] = text
        ran = check(programs, forged)
        assert ran.status == 3 and "the environment's capacity" in ran.out, (name, ran)


@pytest.mark.parametrize(
    "column",
    ["success_percent", "messages_per_second", "avg_latency_ms", "peak_threads", "server_echoes", "latency_p50_ms",
     "connect_max_ms", "server_kib_per_connection", "jain", "clients", "transport"],
)  # fmt: skip
def test_a_forged_figure_is_found_in_csv_too(programs: Programs, measured: Path, column: str) -> None:
    rows = rows_of_csv(measured / "rows.csv")
    row = rows[0]
    other = "tcp" if column == "transport" else str(float(row[column]) + 100).removesuffix(".0")
    expect_refused_in_csv(programs, row, column, other)


def test_a_table_of_ours_without_its_repetitions_is_invalid(programs: Programs, measured: Path) -> None:
    document = json.loads((measured / "rows.json").read_text())
    cell_of(document, OURS).pop("repetitions")
    ran = check(programs, document)
    assert ran.status == 3 and "no repetitions" in ran.out, ran
