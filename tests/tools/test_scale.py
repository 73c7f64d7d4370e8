# SPDX-License-Identifier: Apache-2.0
"""`verbena bench scale` with few clients: its rows, their checks and its report; rows of
performance_test.
"""

import csv
import json
import re
import shutil
import signal
import statistics
from pathlib import Path

import pytest
from programs import ROOT, Programs, Ran, wait_until
from sweeps import expect_equally_often

BENCH = ("verbena", "bench", "scale")
QUICK = ("--seconds", 0.15, "--warmup", 0.02)
STEADY = ("--seconds", 0.6, "--warmup", 0.1)  # for many clients, whose echoes take longer
PUBLISHED = ROOT / "bench" / "published" / "connection_scale.csv"
PUBLISHED_COLUMNS = PUBLISHED.read_text().splitlines()[0].split(",")


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with scale.json, scale.csv and scale.md of a small run."""
    files = ("--json", "scale.json", "--csv", "scale.csv", "--md", "scale.md")
    ran = shared_programs.run(*BENCH, "--clients", "3,20", "--rate", "0,300", "--reps", 2, *QUICK, *files)
    assert ran.status == 0, ran
    return shared_programs.folder


def rows_of(folder: Path) -> list[dict]:
    return json.loads((folder / "scale.json").read_text())["rows"]


def test_rows_have_equal_counts_of_the_server_and_the_clients(measured: Path) -> None:
    rows = rows_of(measured)
    cells = [(row["rate"], row["transport"], row["clients"]) for row in rows]
    assert cells == [
        (rate, transport, clients) for rate in (0, 300) for transport in ("rdma", "tcp") for clients in (3, 20)
    ]
    for row in rows:
        assert row["validity"] in ("valid", "suspect"), row
        assert row["success_percent"] == 100 and row["peak_clients"] == row["clients"], row
        assert row["server_echoes"] == row["client_echoes"] > 0, row
        assert 0 < row["connect_p50_ms"] <= row["connect_p99_ms"] <= row["connect_max_ms"]
        assert 0 < row["latency_p50_ms"] <= row["latency_p99_ms"] <= row["latency_max_ms"]
        assert row["messages_per_second_low"] <= row["messages_per_second"] <= row["messages_per_second_high"]
        assert row["connections_per_s"] > 0 and row["server_kib_per_connection"] > 0 and 2 <= row["peak_threads"] <= 8
        assert len(row["repetitions"]) == 2
        # Each client has one message in flight, so each echo is a separate send.
        assert row["transport"] == "tcp" or row["doorbells_per_echo"] >= 1, row
        if row["rate"]:
            assert 0.2 * row["rate"] < row["messages_per_second"] < 2 * row["rate"], row


def test_a_table_names_its_device_and_has_the_published_columns_in_their_order(measured: Path) -> None:
    environment = json.loads((measured / "scale.json").read_text())["environment"]
    assert environment["device"] == "vb_lo" and environment["kind"] == "software"
    with (measured / "scale.csv").open() as file:
        header = next(csv.reader(file))
    at = header.index("clients")
    assert at == 0 and header[: len(PUBLISHED_COLUMNS)] == PUBLISHED_COLUMNS
    lines = (measured / "scale.md").read_text().splitlines()
    assert lines[0].replace(" ", "").startswith("|" + "|".join(PUBLISHED_COLUMNS) + "|system|transport|")
    assert len([line for line in lines if re.search(r"\| verbena +\| rdma +\|", line)]) == 4


def test_check_finds_no_fault_with_our_own_rows(measured: Path, programs: Programs) -> None:
    for name in ("scale.json", "scale.csv"):
        ran = programs.run("verbena", "check", measured / name, "--strict", "--json")
        assert ran.status == 0, ran
        verdict = json.loads(ran.out)
        assert len(verdict["rows"]) == 8 and verdict["invalid"] == 0 and verdict["experiment"] == "scale"
        assert {row["validity"] for row in verdict["rows"]} <= {"valid", "suspect"}


def test_check_finds_a_row_whose_server_counted_another_number(measured: Path, programs: Programs) -> None:
    table = json.loads((measured / "scale.json").read_text())
    table["rows"][0]["server_echoes"] += 1
    (programs.folder / "wrong.json").write_text(json.dumps(table))
    ran = programs.run("verbena", "check", "wrong.json", "--strict")
    assert ran.status == 3 and "server_echoes is" in ran.out, ran
    table = json.loads((measured / "scale.json").read_text())
    table["rows"][0]["server_echoes"] += 1
    table["rows"][0]["repetitions"][0]["server_echoes"] += 1
    (programs.folder / "wrong.json").write_text(json.dumps(table))
    ran = programs.run("verbena", "check", "wrong.json", "--strict")
    assert ran.status == 3 and "the server counted" in ran.out, ran


def test_the_published_rows_are_not_comparable(programs: Programs) -> None:
    ran = programs.run("verbena", "check", PUBLISHED)
    assert ran.status == 0 and "6 rows: 0 invalid, 0 suspect, 6 not comparable" in ran.out, ran
    assert "-n 1 -d 50 -t 200" in ran.out and "1244 threads at most" in ran.out, ran


def test_the_report_judges_every_claim_and_draws_four_pictures(measured: Path, programs: Programs) -> None:
    ran = programs.run(
        "verbena", "report", measured / "scale.json", "-o", "page.html", "--plots", "plots", "--json", "facts.json"
    )
    assert ran.status == 0, ran
    judgements = json.loads((programs.folder / "facts.json").read_text())["claims"]["scale"]
    numbers = ("1", "2", "3a", "3b", "4", "5", "6a", "6b", "7", "8", "9a", "9b", "9c", *map(str, range(10, 15)))
    assert [each["claim"]["id"] for each in judgements] == [f"S3.{number}" for number in numbers]
    assert {each["finding"]["verdict"] for each in judgements} <= {"supported", "contradicted", "not testable"}
    drawn = {path.name for path in (programs.folder / "plots").iterdir()}
    pictures = {name for name in drawn if not name.startswith("latency_percentiles_")}
    names = ("connect_time", "echoes", "latency", "memory")
    assert pictures == {f"{name}_vs_clients.{suffix}" for name in names for suffix in ("png", "svg")}
    assert "software NIC" in (programs.folder / "page.html").read_text()


def test_each_client_can_send_a_given_number_of_messages(programs: Programs) -> None:
    ran = programs.run(
        *BENCH,
        "--clients",
        5,
        "--transport",
        "rdma",
        "--messages",
        40,
        "--seconds",
        5,
        "--reps",
        1,
        "--json",
        "-",
        "--quiet",
    )
    assert ran.status == 0, ran
    row = json.loads(ran.out)["rows"][0]
    assert row["client_echoes"] == 5 * 40 and row["jain"] == 1


def test_a_run_with_two_ways_to_connect_has_rows_of_both(programs: Programs) -> None:
    words = ("--clients", 20, "--connect", "tls-psn,rdmacm", "--reps", 1, *QUICK, "--json", "s.json", "--quiet")
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    rows = json.loads((programs.folder / "s.json").read_text())["rows"]
    assert [(row["transport"], row["connect"]) for row in rows] == [
        ("rdma", "tls-psn"),
        ("rdma", "rdmacm"),
        ("tcp", "tls-psn"),
    ]
    assert all(row["success_percent"] == 100 and row["peak_clients"] == 20 for row in rows), rows
    assert programs.run("verbena", "check", "s.json", "--strict").status == 0
    ran = programs.run(*BENCH, "--clients", 2, "--connect", "rdmacm", "--transport", "tcp", "--json", "-", "--quiet")
    (alone,) = json.loads(ran.out)["rows"]
    assert alone["validity"] == "n/a" and "TCP has none" in alone["reason"]


def test_a_hundred_stalled_handshakes_delay_the_median_connect_by_less_than_50_ms(programs: Programs) -> None:
    words = (
        "--clients",
        10,
        "--stalled",
        "0,100",
        "--transport",
        "rdma",
        "--reps",
        3,
        *QUICK,
        "--json",
        "-",
        "--quiet",
    )
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    alone, beside = json.loads(ran.out)["rows"]
    assert (alone["stalled"], beside["stalled"]) == (0, 100)

    def typical(row: dict, name: str) -> float:
        return statistics.median(one[name] for one in row["repetitions"])

    assert typical(beside, "connect_p50_ms") - typical(alone, "connect_p50_ms") < 50, (alone, beside)
    # On a busy machine the slowest client may be slow, but none may wait until the server drops the
    # stalled handshakes (10 s).
    assert typical(beside, "connect_p99_ms") - typical(alone, "connect_p99_ms") < 2000, (alone, beside)


def test_the_threads_engine_contradicts_the_claim_of_few_threads(programs: Programs) -> None:
    """Runs without a duration, so that a busy machine makes no row suspect."""
    rows = []
    for engine in ("epoll", "threads"):
        words = ("performance_test", "-c", 10, "-n", 20, "-t", 0, "--engine", engine, "--json", "p.json")
        assert programs.run(*words).status == 0
        rows += json.loads((programs.folder / "p.json").read_text())["rows"]
    few, threads = rows
    assert few["engine"] == "epoll" and few["peak_threads"] <= 6
    assert threads["engine"] == "threads" and threads["peak_threads"] >= 10
    (programs.folder / "s.json").write_text(json.dumps({"rows": rows}))
    assert programs.run("verbena", "check", "s.json", "--strict").status == 0
    ran = programs.run("verbena", "report", "s.json", "-o", "p.html", "--plots", "plots", "--json", "facts.json")
    assert ran.status == 0, ran
    findings = {
        each["claim"]["id"]: each["finding"]
        for each in json.loads((programs.folder / "facts.json").read_text())["claims"]["s"]
    }
    assert findings["S3.5"]["verdict"] == "contradicted", findings["S3.5"]


def test_a_thread_for_each_client_has_its_limit(programs: Programs) -> None:
    few = ("--clients", "10,2001", "--transport", "rdma", "--reps", 1, *QUICK, "--json", "-", "--quiet")
    ran = programs.run(*BENCH, "--engine", "threads", *few)
    assert ran.status == 0, ran
    ten, too_many = json.loads(ran.out)["rows"]
    assert ten["peak_threads"] > 10
    assert too_many["validity"] == "n/a" and "at most 2000" in too_many["reason"]


@pytest.mark.parametrize(("clients", "queue_pairs", "window"), [(200, 2, 4), (20, 0, 64)])
def test_an_ablation_adds_a_row_without_each_feature(
    programs: Programs, clients: int, queue_pairs: int, window: int
) -> None:
    words = (
        "--clients",
        clients,
        "--qps",
        queue_pairs,
        "--window",
        window,
        "--transport",
        "rdma",
        "--ablation",
        "--reps",
        2,
    )
    ran = programs.run(*BENCH, *words, *STEADY, "--json", "-", "--quiet", limit_s=60)
    assert ran.status == 0, ran
    rows = {row["without"]: row for row in json.loads(ran.out)["rows"]}
    assert set(rows) == {"", "coalescing", "pooling", "batched polling"}
    for row in rows.values():
        assert row["success_percent"] == 100, row
        assert row["doorbells_per_echo_low"] <= row["doorbells_per_echo"] <= row["doorbells_per_echo_high"], row
    assert rows[""]["doorbells_per_echo"] < rows["coalescing"]["doorbells_per_echo"]


def test_capacity_reports_the_binding_limit(programs: Programs) -> None:
    words = ("--capacity", "--clients", "50,200", "--reps", 2, "--json", "s.json", "--quiet")
    ran = programs.run(*BENCH, *words, limit_s=60)
    assert ran.status == 0, ran
    environment = json.loads((programs.folder / "s.json").read_text())["environment"]
    kinds = ("rdma", "tcp with TLS", "tcp in clear", "logical, on shared queue pairs", "rdma, a thread for each")
    for kind in kinds:
        assert "KiB" in environment[f"capacity {kind}"] and "bound by" in environment[f"capacity {kind}"], environment
    parts = environment["capacity_parts"]
    each = re.match(r"a queue pair and its channel ([\d.]+) KiB .*; a TLS session ([\d.]+) KiB .*; a descriptor", parts)
    assert each and min(float(each[1]), float(each[2])) > 0 and parts.endswith("in the kernel"), parts
    assert "bound by the engine's own limit" in environment["capacity rdma, a thread for each"]
    ran = programs.run("verbena", "report", "s.json", "-o", "p.html", "--plots", "plots", "--json", "facts.json")
    assert ran.status == 0, ran
    findings = {
        each["claim"]["id"]: each["finding"]
        for each in json.loads((programs.folder / "facts.json").read_text())["claims"]["s"]
    }
    assert all(findings[f"S3.9{part}"]["verdict"] != "not testable" for part in "abc"), findings


def test_logical_clients_share_queue_pairs_and_check_counts_their_ids(programs: Programs) -> None:
    ran = programs.run(
        *BENCH,
        "--clients",
        "200",
        "--qps",
        "0,4",
        "--transport",
        "rdma",
        "--reps",
        1,
        *STEADY,
        "--json",
        "s.json",
        "--quiet",
    )
    assert ran.status == 0, ran
    own, shared = json.loads((programs.folder / "s.json").read_text())["rows"]
    assert own["qps"] == 200 and own["shared_qps"] == 0 and own["distinct_ids"] is None
    assert shared["qps"] == shared["shared_qps"] == 4 and shared["distinct_ids"] == shared["peak_clients"] == 200
    assert programs.run("verbena", "check", "s.json", "--strict").status == 0
    shared["distinct_ids"] = 199
    (programs.folder / "wrong.json").write_text(json.dumps({"rows": [shared]}))
    assert programs.run("verbena", "check", "wrong.json", "--strict").status == 3


def test_logical_clients_share_their_queue_pairs_fairly(programs: Programs) -> None:
    words = ("--clients", 200, "--qps", 4, "--transport", "rdma", "--reps", 1, "--seconds", 2, "--warmup", 0.2)
    ran = programs.run(*BENCH, *words, "--json", "-", "--quiet")
    assert ran.status == 0, ran
    assert json.loads(ran.out)["rows"][0]["jain"] >= 0.95, ran  # Jain's index; 1 is fair


def limited(descriptors: int) -> list[str]:
    return ["prlimit", f"--nofile={descriptors}:{descriptors}"]


def test_a_shortage_of_descriptors_is_reported_and_not_blamed_on_the_server(programs: Programs) -> None:
    few = dict(within=lambda words: [*limited(256), *words])
    ran = programs.run(
        *BENCH, "--clients", "10,250", "--transport", "tcp", "--reps", 1, *QUICK, "--json", "-", "--quiet", **few
    )
    assert ran.status == 0, ran
    valid, short = json.loads(ran.out)["rows"]
    assert valid["success_percent"] == 100
    assert short["validity"] == "n/a" and "shortage of descriptors" in short["reason"], short
    ran = programs.run("performance_test", "-c", 250, "--transport", "tcp", **few)
    assert ran.status == 1 and "shortage of descriptors" in ran.err, ran


@pytest.mark.parametrize(
    "wrong",
    [
        ("--clients", "0"),
        ("--clients", "100001"),
        ("--transport", "pigeon"),
        ("--connect", "pigeon"),
        ("--stalled", "x"),
        ("--rate", "x"),
        ("--seconds", "0"),
        ("--engine", "poll"),
        ("--qps", "5000"),
        ("--capacity", "--clients", "50"),
    ],
)
def test_options_out_of_range_are_usage_errors(programs: Programs, wrong: tuple[str, ...]) -> None:
    assert programs.run(*BENCH, *wrong).status == 2


def test_redis_that_is_not_installed_is_named(programs: Programs) -> None:
    ran = programs.run(
        *BENCH, "--with-redis", within=lambda words: [*words[:3], "/usr/bin/env", "PATH=/nowhere", *words[3:]]
    )
    assert ran.status == 1 and "redis-server and redis-tools" in ran.err, ran


def check_all_good(ran: Ran, clients: int) -> None:
    assert ran.status == 0 and f"{clients}   100.00%" in ran.out, ran


def test_performance_test_runs_for_a_time_at_a_rate_over_tcp(programs: Programs) -> None:
    ran = programs.run(
        "performance_test",
        "-c",
        20,
        "--duration",
        0.3,
        "--rate",
        400,
        "--hold",
        0.1,
        "--transport",
        "tcp",
        "--json",
        "-",
    )
    assert ran.status == 0, ran
    row = json.loads(ran.out)["rows"][0]
    assert row["transport"] == "tcp" and row["seconds"] == 0.3 and row["rate"] == 400
    assert 100 < row["messages_per_second"] < 800, row
    assert "connections/s" in ran.err and "context switches" in ran.err, ran


def test_each_client_with_a_window_sends_its_number_of_messages(programs: Programs) -> None:
    ran = programs.run("performance_test", "-c", 4, "-n", 33, "-t", 0, "--window", 8)
    check_all_good(ran, 4)
    assert "132 echoed" in ran.out, ran


def test_a_number_of_messages_and_a_duration_exclude_each_other(programs: Programs) -> None:
    assert programs.run("performance_test", "-n", 3, "--duration", 1).status == 2


def test_a_run_in_which_clients_fail_is_not_valid_and_its_cpu_time_not_negative(programs: Programs) -> None:
    """The server has fewer descriptors than the clients need, so most of them fail early."""
    server = programs.start("echo_server", "--listen", "127.0.0.1", "--port", 0, within=few_descriptors)
    where = wait_until(
        lambda: re.search(r"listening at (127\.0\.0\.1:\d+)", server.out), "echo_server listens", alive=server
    )[1]
    words = ("-c", 200, "-n", 2, "-t", 0, "--transport", "tcp", "--connect-timeout-s", 2, "--processes", 4)
    ran = programs.run("performance_test", *words, "-s", where, "--json", "p.json")
    assert ran.status == 1, ran
    (row,) = json.loads((programs.folder / "p.json").read_text())["rows"]
    assert row["success_percent"] < 100 and row["validity"] == "suspect", row
    assert "of 200 clients succeeded" in row["reason"] and "judged: suspect" in ran.out, ran
    assert row["clients_cpu_percent"] > 0, "all clients' processes are there when the last sample is taken"
    failed = sum(value for name, value in row.items() if name.startswith("failed_"))
    assert failed == 200 - row["success_percent"] * 2


def few_descriptors(words: list[str]) -> list[str]:
    return [*limited(90), *words]


def test_redis_has_a_row_with_its_own_interval_and_verdict(programs: Programs) -> None:
    if not shutil.which("redis-benchmark") or not shutil.which("redis-server"):
        pytest.skip("redis is not installed")
    words = ("--clients", "5", "--transport", "tcp", "--with-redis", "--reps", 2, *QUICK)
    ran = programs.run(*BENCH, *words, "--json", "s.json", "--quiet")
    assert ran.status == 0, ran
    ours, redis = json.loads((programs.folder / "s.json").read_text())["rows"]
    assert (ours["system"], redis["system"], redis["transport"], redis["connect"]) == (
        "verbena", "redis", "tcp", "clear",
    )  # fmt: skip
    assert 0 < redis["messages_per_second_low"] <= redis["messages_per_second"] <= redis["messages_per_second_high"]
    assert redis["validity"] in ("valid", "suspect") and len(redis["repetitions"]) == 2, redis
    assert redis["success_percent"] is None and redis["server_kib_per_connection"] is None
    assert programs.run("verbena", "check", "s.json", "--strict").status == 0


def test_ctrl_c_keeps_the_rows_and_the_sweep_is_resumed(programs: Programs) -> None:
    words = (*BENCH, "--quiet", "--clients", "2,3", "--transport", "tcp", *QUICK, "--json", "s.json")
    path = programs.folder / "s.json"
    running = programs.start(*words, "--reps", 500)
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=running, limit_s=30)
    ran = running.end(signal.SIGINT)
    assert ran.status == 130, ran
    before = json.loads(path.read_text())
    # On a busy machine some are at another distance than the others, and so apart.
    done = [len(row["repetitions"]) + len(row["apart"]) for row in before["rows"]]
    assert before["environment"]["unfinished"] == f"{1000 - sum(done)} repetitions were not measured"
    ran = programs.run(*words, "--reps", max(done) + 1, "--resume", "s.json", limit_s=60)
    assert ran.status == 0, ran
    after = json.loads(path.read_text())
    expect_equally_often(after["rows"], max(done) + 1)
    kept = before["rows"][0]["repetitions"] + before["rows"][0]["apart"]
    assert all(each in after["rows"][0]["repetitions"] + after["rows"][0]["apart"] for each in kept)
    assert "unfinished" not in after["environment"]
    ran = programs.run(*words, "--reps", max(done) + 1, "--resume", "s.json", "--handshakes", 3)
    assert ran.status == 1 and "cannot be resumed: its settings was" in ran.err, ran
