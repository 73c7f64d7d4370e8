# SPDX-License-Identifier: Apache-2.0
"""`verbena bench rpc` with few requests: its rows, their checks, and the faults of the published
table.
"""

import csv
import json
import signal
from pathlib import Path

import pytest
from programs import BUILD, ROOT, Programs, wait_until
from sweeps import expect_equally_often

PUBLISHED = ROOT / "bench" / "published" / "rpc_rdma.csv"
BENCH = ("verbena", "bench", "rpc", "--duration", 0.2, "--warmup", 0.05, "--reps", 2)


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    """A folder with rpc.json and rpc.csv of a small run."""
    ran = shared_programs.run(
        *BENCH, "--sizes", "128,32K", "--concurrency", "1,16", "--json", "rpc.json", "--csv", "rpc.csv"
    )
    assert ran.status == 0, ran
    return shared_programs.folder


def test_rows_have_the_cells_and_their_figures(measured: Path) -> None:
    rows = json.loads((measured / "rpc.json").read_text())["rows"]
    cells = [(row["transport"], row["request_size"], row["concurrency"]) for row in rows]
    assert cells == [
        (transport, size, in_flight)
        for transport in ("tcp", "rdma")
        for size in ("128B", "32K")
        for in_flight in (1, 16)
    ]
    for row in rows:
        assert row["validity"] in ("valid", "suspect"), row
        assert row["system"] == "verbena" and row["mode"] == "sink" and row["connections"] == 1
        percentiles = [row[f"{name}_us"] for name in ("p50", "p90", "p99", "p999", "p9999", "max")]
        assert percentiles[0] > 0 and percentiles == sorted(percentiles), row
        assert row["qps_low"] <= row["qps"] <= row["qps_high"] and row["cpu_us_per_request"] > 0
        assert row["p99_us_low"] <= row["p99_us_high"] and len(row["repetitions"]) == 2
        for each in row["repetitions"]:
            assert each["latency_ns"]["count"] == each["requests"] and each["callers"] == row["concurrency"], row
        if row["request_size"] == "128B" and row["concurrency"] == 16:
            assert row["requests_per_message"] > 1, row


def test_the_published_columns_come_first(measured: Path) -> None:
    with (measured / "rpc.csv").open() as file:
        header = next(csv.reader(file))
    assert header[:6] == PUBLISHED.read_text().splitlines()[0].split(",")


def test_the_environment_says_what_was_measured_and_where(measured: Path) -> None:
    environment = json.loads((measured / "rpc.json").read_text())["environment"]
    assert environment["device"] == "vb_lo" and environment["kind"] == "software"
    assert environment["link"] == "Ethernet, two processes on one host"
    assert environment["settings"] == "duration 0.2 s, warmup 0.05 s, threads 1, poll 50 us, send-buffers default"
    assert {"core_to_core_ns", "cpu", "cores", "kernel", "commit", "date", "command"} <= environment.keys()


def test_check_finds_no_fault_with_our_own_rows(measured: Path, programs: Programs) -> None:
    for name in ("rpc.json", "rpc.csv"):
        ran = programs.run("verbena", "check", measured / name, "--strict", "--json")
        assert ran.status == 0 and json.loads(ran.out)["invalid"] == 0, ran


def test_echo_mode_is_a_column_of_the_row(programs: Programs) -> None:
    words = (
        "--sizes",
        "4K",
        "--concurrency",
        4,
        "--connections",
        2,
        "--transport",
        "tcp",
        "--mode",
        "echo",
        "--json",
        "-",
    )
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    (row,) = json.loads(ran.out)["rows"]
    assert row["mode"] == "echo" and row["connections"] == 2 and row["validity"] in ("valid", "suspect")


def test_each_ablation_runs_with_and_without_the_feature_and_the_report_judges_it(programs: Programs) -> None:
    names = ("inline", "coalescing", "send-queue", "pool", "connection-pool")
    words = (
        "--ablate",
        ",".join(names),
        "--sizes",
        "128",
        "--concurrency",
        4,
        "--transport",
        "rdma",
        "--json",
        "rpc.json",
    )
    ran = programs.run(*BENCH, *words, limit_s=120)
    assert ran.status == 0, ran
    document = json.loads((programs.folder / "rpc.json").read_text())
    assert [(row["ablation"], row["without"]) for row in document["rows"]] == [
        (name, off) for name in names for off in ("", name)
    ]
    assert document["environment"]["device"] == "vb_lo" and document["environment"]["kind"] == "software"
    assert "us to register" in document["environment"]["registration 256K"]
    rows = {(row["ablation"], bool(row["without"])): row for row in document["rows"]}
    assert rows["coalescing", True]["requests_per_message"] == 1 < rows["coalescing", False]["requests_per_message"], (
        rows
    )
    assert rows["inline", True]["inline_share"] == 0 and rows["inline", False]["inline_share"] > 0, rows
    # Without the pool, each call registers its memory. With it, a few regions serve all calls.
    assert rows["pool", True]["registrations"] > rows["pool", True]["requests"] > 0, rows
    assert rows["pool", False]["registrations"] < 64, rows
    assert rows["connection-pool", True]["connections_made"] > rows["connection-pool", True]["requests"], rows
    assert rows["connection-pool", False]["connections_made"] <= 2 * 4, "at most one for each caller and repetition"
    ran = programs.run("verbena", "report", "rpc.json", "-o", "page.html", "--plots", "plots", "--json", "facts.json")
    assert ran.status == 0, ran
    judged = json.loads((programs.folder / "facts.json").read_text())["claims"]["rpc"]
    assert [each["claim"]["id"] for each in judged] == [f"S4.{number}" for number in range(1, 9)]
    assert "Gain of each behaviour" in (programs.folder / "page.html").read_text()


def test_without_the_send_queue_one_part_of_large_data_is_in_flight(programs: Programs) -> None:
    words = ("--ablate", "send-queue", "--sizes", "1M", "--concurrency", 4, "--transport", "rdma", "--json", "-")
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    parts = {bool(row["without"]): row["parts_under_way"] for row in json.loads(ran.out)["rows"]}
    assert parts[True] == 1 < parts[False], parts


def test_receive_buffers_of_each_connection_pin_the_published_memory(programs: Programs) -> None:
    words = (
        "--transport",
        "rdma",
        "--recv-mode",
        "per_connection",
        "--sizes",
        "128",
        "--concurrency",
        4,
        "--connections",
        4,
        "--json",
        "-",
    )
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    (row,) = json.loads(ran.out)["rows"]
    assert row["recv_mode"] == "per_connection" and 2048 <= row["pinned_kib_per_connection"] <= 2816, row


def test_requests_in_registered_memory_give_rows_that_are_not_invalid(programs: Programs) -> None:
    words = ("--transport", "rdma", "--memory", "registered", "--sizes", "1K,256K", "--concurrency", 4, "--json", "-")
    ran = programs.run(*BENCH, *words)
    assert ran.status == 0, ran
    assert [row["validity"] in ("valid", "suspect") for row in json.loads(ran.out)["rows"]] == [True, True]


def test_an_interrupted_run_keeps_its_rows_and_is_resumed(programs: Programs) -> None:
    quick = ("verbena", "bench", "rpc", "--quiet", "--duration", 0.1, "--warmup", 0.05)
    words = (*quick, "--transport", "tcp", "--sizes", 128, "--concurrency", "1,4", "--json", "rpc.json")
    running = programs.start(*words, "--reps", 1000, "--csv", "rpc.csv")
    path = programs.folder / "rpc.json"
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=running)
    ran = running.end(signal.SIGINT)
    assert ran.status == 130, ran
    document = json.loads(path.read_text())
    # On a busy machine some are at another distance than the others, and so apart.
    done = [len(row["repetitions"]) + len(row["apart"]) for row in document["rows"]]
    assert document["environment"]["unfinished"] == f"{2000 - sum(done)} repetitions were not measured"
    assert 1 <= max(done) < 1000 and all(row["validity"] != "invalid" for row in document["rows"]), document
    assert programs.run("verbena", "check", "rpc.csv", "--strict").status == 0
    ran = programs.run(*words, "--reps", max(done) + 1, "--resume", "rpc.json")
    assert ran.status == 0, ran
    whole = json.loads(path.read_text())
    expect_equally_often(whole["rows"], max(done) + 1)
    first, last = document["rows"][0], whole["rows"][0]
    kept, all_of_it = first["repetitions"] + first["apart"], last["repetitions"] + last["apart"]
    assert all(each in all_of_it for each in kept), "the earlier ones stay"
    assert programs.run("verbena", "check", "rpc.json", "--strict").status == 0
    ran = programs.run(*words, "--reps", max(done) + 1, "--resume", "rpc.json", "--poll-us", 7)
    assert ran.status == 1 and "cannot be resumed: its settings was" in ran.err, ran


@pytest.mark.parametrize("system", ["grpc", "capnp"])
def test_another_system_has_rows_of_the_same_cells(programs: Programs, system: str) -> None:
    words = ("--transport", "tcp", "--sizes", "128,32K", "--concurrency", 4, f"--with-{system}", "--json", "rpc.json")
    ran = programs.run(*BENCH, *words)
    if not (BUILD / "bench" / f"rpc_{system}").exists():
        assert ran.status == 1 and "install" in ran.err, ran
        return
    assert ran.status == 0, ran
    rows = json.loads((programs.folder / "rpc.json").read_text())["rows"]
    assert [row["system"] for row in rows] == ["verbena", system] * 2
    assert all(
        row["qps"] > 0 and row["cpu_us_per_request"] > 0 and row["validity"] in ("valid", "suspect") for row in rows
    ), rows
    assert all(each["latency_ns"]["count"] == each["requests"] for row in rows for each in row["repetitions"])
    assert programs.run("verbena", "check", "rpc.json", "--strict").status == 0
    theirs = [row for row in rows if row["system"] == system]
    (programs.folder / "rpc.json").write_text(json.dumps({"rows": [row | {"system": "verbena"} for row in theirs]}))
    assert programs.run("verbena", "check", "rpc.json", "--strict").status == 3, "theirs are not ours"


def test_the_published_table_has_six_faulty_rows(programs: Programs) -> None:
    ran = programs.run("verbena", "check", PUBLISHED, "--json")
    verdict = json.loads(ran.out)
    flagged = {
        (row["request_size"], row["concurrency"]): row["validity"]
        for row in verdict["rows"]
        if row["validity"] != "valid"
    }
    assert flagged == {
        ("128B", 64): "invalid",
        ("128B", 256): "invalid",
        ("4K", 256): "invalid",
        ("256K", 256): "invalid",
        ("8M", 1): "suspect",
        ("8M", 256): "suspect",
    }
    assert programs.run("verbena", "check", PUBLISHED, "--strict").status == 3


WRONG = [("--sizes", "64M"), ("--transport", "udp"), ("--mode", "both"), ("--concurrency", "0"), ("--ablate", "luck")]


@pytest.mark.parametrize("words", WRONG)
def test_options_out_of_range_are_usage_errors(programs: Programs, words: tuple[str, str]) -> None:
    assert programs.run("verbena", "bench", "rpc", *words).status == 2
