# SPDX-License-Identifier: Apache-2.0
"""`verbena bench kv`, and `verbena check` on tables of the key-value store."""

import csv
import io
import json
import re
import signal
import statistics

import pytest
from programs import ROOT, Programs, wait_until
from sweeps import expect_equally_often

PUBLISHED_KV = ROOT / "bench" / "published" / "kv_set_get.csv"
QUICK = ("--reps", 2, "--iters", 300, "--seconds-max", 5, "--rx-depth", 64, "--tx-depth", 64, "--quiet")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(
            io.StringIO("".join(line for line in text.splitlines(keepends=True) if not line.startswith("#")))
        )
    )


def test_every_protocol_is_measured_with_the_documented_number_of_messages(programs: Programs) -> None:
    ran = programs.run(
        "verbena",
        "bench",
        "kv",
        "--sizes",
        "64,64K",
        "--window",
        "1,8",
        "--rndv",
        "read,write",
        *QUICK,
        "--csv",
        "-",
        limit_s=60,
    )
    assert ran.status == 0, ran
    rows = rows_of(ran.out)
    messages = {"read": 2.0, "write": 4.0}
    assert {(row["op"], row["proto"], row["protocol"], row["form"]) for row in rows} == {
        ("SET", "eager", "eager", ""),
        ("SET", "rendezvous", "rendezvous", "read"),
        ("SET", "rendezvous", "rendezvous", "write"),
        ("SET", "auto", "eager", "read"),
        ("SET", "auto", "eager", "write"),
        ("SET", "auto", "rendezvous", "read"),
        ("SET", "auto", "rendezvous", "write"),
        ("GET", "eager", "eager", ""),
        ("GET", "rendezvous", "rendezvous", "read"),
        ("GET", "auto", "eager", "read"),
        ("GET", "auto", "rendezvous", "read"),
    }
    for row in rows:
        assert row["validity"] in ("valid", "suspect"), row
        assert (row["iters"], row["operations"], row["rx_depth"]) == ("300", "600", "64"), row
        assert float(row["depth"]) <= int(row["window"]), row
        assert float(row["gigabytes_per_second"]) > 0.9 * float(row["gibibytes_per_second"]), row
        if row["op"] == "SET":
            is_eager = row["protocol"] == "eager"
            assert float(row["messages_per_operation"]) == (2.0 if is_eager else messages[row["form"]]), row
        else:  # an idle client sends a release alone, which is a third message
            assert 2 <= float(row["messages_per_operation"]) < 2.1, row
        if row["proto"] == "auto":
            assert row["protocol"] == ("eager" if int(row["value_bytes"]) < 4096 else "rendezvous"), row
    (programs.folder / "own.csv").write_text(ran.out)
    assert programs.run("verbena", "check", "own.csv", "--strict").status == 0


def test_a_failed_operation_ends_the_benchmark_with_its_error(programs: Programs) -> None:
    words = ("--memory", "1M", "--sizes", "64K", "--ops", "set", "--proto", "rndv", "--window", 64)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, limit_s=60)
    assert ran.status == 1 and "the store is full" in ran.err, ran


def test_the_stores_memory_limit_does_not_limit_the_clients(programs: Programs) -> None:
    words = ("--memory", "1M", "--sizes", "512K", "--proto", "eager", "--ops", "set", "--window", 1)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    assert [row["validity"] for row in rows_of(ran.out)] != ["invalid"], ran


def test_the_users_eager_max_decides_the_protocol(programs: Programs) -> None:
    words = ("--eager-max", "1K", "--sizes", "512,2K", "--proto", "auto", "--window", 1)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    ways = {(row["value_bytes"], row["protocol"], row["eager_max"]) for row in rows_of(ran.out)}
    assert ways == {("512", "eager", "1024"), ("2048", "rendezvous", "1024")}, ran


def test_large_values_are_compared_with_one_copy_in_the_same_run(programs: Programs) -> None:
    words = ("--sizes", "4K,128K", "--proto", "auto", "--window", 4)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--json", "-", limit_s=60)
    assert ran.status == 0, ran
    table = json.loads(ran.out)
    shares = dict(re.findall(r"(SET|GET) auto 128 KiB window 4: ([0-9.]+) of", table["environment"]["one_copy"]))
    assert shares.keys() == {"SET", "GET"} and "4 KiB" not in table["environment"]["one_copy"], table["environment"]
    for row in (each for each in table["rows"] if each["value_bytes"] == 131072):
        copied = statistics.median(each["bytes_copied_per_second"] for each in row["repetitions"])
        assert abs(row["gibibytes_per_second"] * 2**30 / copied - float(shares[row["op"]])) < 0.0051, row


def test_several_clients_share_the_operations_of_a_run(programs: Programs) -> None:
    words = ("--clients", 3, "--sizes", "64,64K", "--proto", "auto", "--window", 4)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    rows = rows_of(ran.out)
    assert len(rows) == 4 and all(row["validity"] != "invalid" for row in rows), rows
    assert all((row["clients"], row["operations"], row["depth_max"]) == ("3", "600", "4.0") for row in rows), rows
    assert all(4 < float(row["depth"]) <= 12 for row in rows), rows


def test_each_parameter_is_swept_by_itself_and_the_report_plots_it(programs: Programs) -> None:
    words = ("--sensitivity", "depth,warmup,iters", "--sizes", "64", "--ops", "set", "--proto", "eager", "--window", 1)
    ran = programs.run(
        "verbena",
        "bench",
        "kv",
        *words,
        "--reps",
        1,
        "--seconds-max",
        20,
        "--quiet",
        "--csv",
        "-",
        "--json",
        "kv.json",
        limit_s=120,
    )
    assert ran.status == 0, ran
    rows = rows_of(ran.out)
    columns = {"depth": "rx_depth", "warmup": "warmup", "iters": "iters"}
    swept = {
        varied: [int(row[column]) for row in rows if row["varied"] == varied] for varied, column in columns.items()
    }
    assert swept == {
        "depth": [16, 64, 256, 1024, 6000],
        "warmup": [0, 1, 10, 50, 500, 5000],
        "iters": [100, 1000, 10_000, 60_000],
    }
    for row in rows:
        fixed = {column: row[column] for varied, column in columns.items() if varied != row["varied"]}
        assert fixed.items() <= {"rx_depth": "6000", "warmup": "50", "iters": "60000"}.items(), row
        assert row["tx_depth"] == row["rx_depth"] and row["validity"] != "invalid", row
    page = programs.run("verbena", "report", "kv.json", "-o", "kv.html", "--plots", "plots", limit_s=120)
    assert page.status == 0, page
    assert {path.stem for path in (programs.folder / "plots").iterdir()} >= {
        f"sensitivity_{varied}" for varied in columns
    }


def test_one_sided_gets_take_no_message_and_are_rows_of_their_own(programs: Programs) -> None:
    words = ("--ops", "get", "--proto", "auto,onesided", "--sizes", "1,100,4K,1M", "--window", "1,8")
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    rows = [row for row in rows_of(ran.out) if row["proto"] == "one-sided"]
    assert len(rows) == 8
    for row in rows:
        assert (row["protocol"], row["messages_per_operation"]) == ("one-sided", "0.0"), row
        assert float(row["one_sided_per_operation"]) == 1 and row["validity"] in ("valid", "suspect"), row
    assert programs.run("verbena", "bench", "kv", "--ops", "set", "--proto", "onesided").status == 2


@pytest.mark.parametrize("other", ["memcached", "redis"])
def test_another_store_has_rows_of_its_own_with_repetitions_and_verdicts(programs: Programs, other: str) -> None:
    words = ("--sizes", "64,64K", "--proto", "auto", "--window", "1,16", f"--with-{other}")
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    rows = [row for row in rows_of(ran.out) if row["system"] == other]
    cells = {(row["op"], row["value_bytes"], row["window"], row["transport"]) for row in rows}
    assert len(rows) == len(cells) == 16 and {row["transport"] for row in rows} == {"unix", "tcp"}
    assert {row["protocol"] for row in rows} == {"RESP" if other == "redis" else "text"}
    for row in rows:
        assert float(row["operations_per_second"]) > 100 and row["validity"] in ("valid", "suspect"), row
        assert (row["reps"], row["operations"], row["messages_per_operation"]) == ("2", "600", ""), row


def test_stalled_clients_cost_the_others_no_operation(programs: Programs) -> None:
    """Only the results are checked: their effect on time can be judged on a quiet machine only."""
    words = ("--sizes", "64,64K", "--proto", "auto", "--window", 4, "--stalled", 2)
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0, ran
    rows = rows_of(ran.out)
    assert [row["stalled"] for row in rows] == ["0", "2"] * 4
    assert all(row["operations"] == "600" and row["validity"] != "invalid" for row in rows), rows
    (programs.folder / "own.csv").write_text(ran.out)
    checked = json.loads(programs.run("verbena", "check", "own.csv", "--json").out)
    assert not any("nan" in row["reason"] or "inf" in row["reason"] for row in checked["rows"]), checked
    made = programs.run("verbena", "report", "own.csv", "-o", "own.html", "--json", "facts.json", limit_s=60)
    assert made.status == 0, made
    facts = json.loads((programs.folder / "facts.json").read_text())["sources"][0]["rows"]
    assert all(("p99_times_alone" in row["values"]) == (row["values"]["stalled"] == 2) for row in facts), facts


def test_an_interrupted_run_keeps_what_it_has_measured(programs: Programs) -> None:
    words = (
        "--sizes",
        "1:4K",
        "--proto",
        "auto",
        "--window",
        "1",
        "--reps",
        100,
        "--iters",
        2000,
        "--quiet",
        "--json",
        "kv.json",
    )
    running = programs.start("verbena", "bench", "kv", *words, "--csv", "kv.csv")
    path = programs.folder / "kv.json"
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=running)
    ran = running.end(signal.SIGINT)
    assert ran.status == 130, ran
    rows = rows_of((programs.folder / "kv.csv").read_text())
    assert rows and all(1 <= int(row["reps"]) < 100 and row["validity"] in ("valid", "suspect") for row in rows), rows
    before = json.loads(path.read_text())
    # On a busy machine some are at another distance than the others, and so apart.
    done = sum(len(row["repetitions"]) + len(row["apart"]) for row in before["rows"])
    assert before["environment"]["unfinished"] == f"{26 * 100 - done} repetitions were not measured"
    assert programs.run("verbena", "check", "--strict", "kv.json").status == 0
    wanted = max(len(row["repetitions"]) + len(row["apart"]) for row in before["rows"]) + 1
    words = [wanted if word == 100 else word for word in words]
    ran = programs.run("verbena", "bench", "kv", *words, "--resume", "kv.json", limit_s=60)
    assert ran.status == 0, ran
    after = json.loads(path.read_text())
    assert "unfinished" not in after["environment"] and len(after["rows"]) == 26
    expect_equally_often(after["rows"], wanted)
    first, whole = before["rows"][0], after["rows"][0]
    kept, all_of_it = first["repetitions"] + first["apart"], whole["repetitions"] + whole["apart"]
    assert all(each in all_of_it for each in kept), "the earlier ones stay"


def test_a_killed_run_keeps_what_it_has_written(programs: Programs) -> None:
    words = ("--sizes", "64", "--proto", "auto", "--window", "1", "--reps", 1000, "--quiet", "--json", "kv.json")
    running = programs.start("verbena", "bench", "kv", *words)
    path = programs.folder / "kv.json"
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=running)
    running.kill()
    rows = json.loads(path.read_text())["rows"]
    assert 1 <= len(rows) <= 2 and all(row["repetitions"] for row in rows)
    assert programs.run("verbena", "check", "--strict", "kv.json").status == 0


def test_the_published_form_has_its_headings_and_six_decimals(programs: Programs) -> None:
    ran = programs.run("verbena", "bench", "kv", "--sizes", "1K,4K", "--format", "published", *QUICK, limit_s=60)
    assert ran.status == 0, ran
    lines = ran.out.splitlines()
    assert [line for line in lines if not line[0].isdigit()] == [
        "SET THROUGHPUT MEASURE",
        "Eager Protocol",
        "Rendezvous Protocol",
        "GET THROUGHPUT MEASURE",
        "Eager Protocol",
        "Rendezvous Protocol",
    ]
    of_sizes = [line for line in lines if line[0].isdigit()]
    assert [line.partition("\t")[0] for line in of_sizes] == ["1024", "4096"] * 4, "each heading has each size once"
    assert all(re.fullmatch(r"\d+\t\d+\.\d{6}\tGigabytes/Second", line) for line in of_sizes), ran


def test_the_crossover_compares_both_protocols_at_every_size(programs: Programs) -> None:
    ran = programs.run("verbena", "bench", "kv", "--crossover", "--sizes", "64,1M", "--window", 4, *QUICK, limit_s=60)
    assert ran.status == 0 and ran.out.count("eager against rendezvous") == 2, ran
    assert ran.out.count("64 B") >= 2 and ran.out.count("1 MiB") >= 2, ran


def test_the_published_table_is_judged(programs: Programs) -> None:
    ran = programs.run("verbena", "check", PUBLISHED_KV, "--json")
    assert ran.status == 0, ran
    judged = json.loads(ran.out)
    bad = {(row["validity"], row["op"], row["value_bytes"]) for row in judged["rows"] if row["validity"] != "valid"}
    assert bad == {
        ("suspect", "SET", 262144),
        ("suspect", "GET", 4),
        ("suspect", "GET", 2048),
        ("mislabelled", "GET", 4096),
    }
    assert "no size has both protocols" in judged["remark"]


def test_a_word_that_is_given_twice_counts_once(programs: Programs) -> None:
    words = ("--sizes", "64,64", "--ops", "set,set", "--proto", "eager,eager", "--window", "1,1", "--rndv", "read,read")
    ran = programs.run("verbena", "bench", "kv", *words, *QUICK, "--csv", "-", limit_s=60)
    assert ran.status == 0 and len(rows_of(ran.out)) == 1, ran


def test_an_honest_table_over_tcp_is_no_longer_refused(programs: Programs) -> None:
    """Its environment had an empty kind, which was "neither hardware nor software"."""
    options = ["--proto", "eager", "--sizes", "64", "--window", "1", "--iters", "200", "--reps", "1", "--quiet"]
    ran = programs.run("verbena", "bench", "kv", "--transport", "tcp", *options, "--json", "over_tcp.json")
    assert ran.status == 0, ran
    environment = json.loads((programs.folder / "over_tcp.json").read_text())["environment"]
    assert not {"device", "kind", "gid", "mtu"} & set(environment)
    ran = programs.run("verbena", "check", "--strict", "over_tcp.json")
    assert ran.status == 0, ran


def test_an_impossible_measurement_is_a_usage_error(programs: Programs) -> None:
    for words in (
        ["--sizes", "65M"],
        ["--proto", "pigeon"],
        ["--window", "0"],
        ["--sensitivity", "luck"],
        ["--rx-depth", "1"],
        ["--transport", "tcp"],
        ["--crossover", "--proto", "eager,auto"],
        ["--format", "published", "--window", "1,16"],
        ["--format", "published", "--rndv", "read,write"],
        ["--format", "published", "--proto", "eager,auto"],
        ["--format", "published", "--proto", "onesided", "--ops", "get"],
        ["--format", "published", "--sensitivity", "depth"],
        ["--format", "published", "--crossover"],
    ):
        assert programs.run("verbena", "bench", "kv", *words).status == 2, words
