# SPDX-License-Identifier: Apache-2.0
"""`verbena bench connect` between two processes: its rows must agree with the server's counts."""

import csv
import json
import os
import signal

import pytest
from namespaces import INTERFACES
from programs import ADDRESSES, NamespacePair, Programs, children, wait_until

BENCH = ("verbena", "bench", "connect")
FEW = ("--count", 20, "--reps", 2)
PARTS = ("address", "route", "queue_pair", "connect")


def check_row(row: dict, clients: int, connections: int) -> None:
    assert row["validity"] == "valid", row
    assert row["clients"] == clients and row["established"] == row["disconnected"] == connections
    assert 0 < row["connects_per_s_low"] <= row["connects_per_s"] <= row["connects_per_s_high"]
    assert 0 < row["p50_us"] <= row["p99_us"] <= row["max_us"]
    assert 0 < row["disconnect_p50_us"] <= row["disconnect_p99_us"]
    assert all(0 < row[f"{part}_p50_us"] < row["max_us"] for part in PARTS)
    rates = [each["connects_per_s"] for each in row["repetitions"]]
    assert len(rates) == 2 and min(rates) <= row["connects_per_s"] <= max(rates)


def test_the_server_counts_what_the_client_measured(programs: Programs) -> None:
    ran = programs.run(*BENCH, "--clients", "1,8", *FEW, "--json", "-", "--csv", "rows.csv", "--md", "rows.md")
    assert ran.status == 0, ran
    assert "device: vb_lo (software), to 127.0.0.1:" in ran.err
    table = json.loads(ran.out)
    for row, clients in zip(table["rows"], (1, 8), strict=True):
        check_row(row, clients, 2 * 20)
        assert row["round_trip_ns"] > 0
    environment = table["environment"]
    assert environment["device"] == "vb_lo" and environment["kind"] == "software" and environment["connect"] == "rdmacm"
    assert float(environment["core_to_core_ns"]) > 0 and environment["command"].endswith("--md rows.md")

    with (programs.folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert [float(row["p50_us"]) for row in rows] == [row["p50_us"] for row in table["rows"]]
    line = next(line for line in (programs.folder / "rows.md").read_text().splitlines() if "rdmacm" in line)
    assert [cell.strip() for cell in line.split("|")[1:5]] == ["connect", "rdmacm", "1", "20"]


def test_the_table_is_judged_and_becomes_a_page(programs: Programs) -> None:
    assert programs.run(*BENCH, "--clients", 1, *FEW, "--json", "connect.json", "--quiet").status == 0
    checked = programs.run("verbena", "check", "connect.json")
    assert checked.status == 0 and "1 rows: 0 invalid" in checked.out, checked
    assert programs.run("verbena", "report", "connect.json", "-o", "page.html").status == 0
    assert 'id="connect-connects_vs_clients"' in (programs.folder / "page.html").read_text()


def test_a_device_can_be_named_and_an_unknown_one_is_reported(programs: Programs) -> None:
    ran = programs.run(*BENCH, "--device", "vb_nowhere", *FEW)
    assert ran.status == 1 and "vb_nowhere" in ran.err and len(ran.err.splitlines()) == 1, ran
    assert programs.run(*BENCH, "--device", "vb_lo", *FEW, "--quiet").status == 0


@pytest.mark.parametrize(
    "wrong", [("--clients", "0"), ("--clients", "2000"), ("--count", "0"), ("--connect", "pigeon"), ("--once",)]
)
def test_options_out_of_range_are_usage_errors(programs: Programs, wrong: tuple[str, ...]) -> None:
    assert programs.run(*BENCH, *wrong).status == 2


def test_an_unreachable_peer_is_reported(programs: Programs) -> None:
    ran = programs.run(*BENCH, "--peer", "127.0.0.1:9", *FEW)
    assert ran.status == 1 and "no server listens at 127.0.0.1:9" in ran.err, ran


def test_a_table_that_cannot_be_written_is_reported(programs: Programs) -> None:
    ran = programs.run(*BENCH, *FEW, "--json", "/nowhere/rows.json")
    assert ran.status == 1 and "/nowhere/rows.json" in ran.err, ran


def test_a_killed_server_makes_the_row_invalid(programs: Programs) -> None:
    bench = programs.start(*BENCH, "--clients", 1, "--count", 50000, "--reps", 1, "--json", "-")
    server = wait_until(lambda: children(bench.pid), "its server is there", alive=bench)[0]
    wait_until(lambda: "device: vb_lo" in bench.err, "it measures", alive=bench)
    os.kill(server, signal.SIGKILL)
    ran = bench.finish()
    assert ran.status == 1, ran
    row = json.loads(ran.out)["rows"][0]
    assert row["validity"] == "invalid" and row["reason"].startswith("repetition 1: "), row


def test_ctrl_c_of_the_whole_group_keeps_the_rows_and_spares_the_server(programs: Programs) -> None:
    bench = programs.start(*BENCH, "--clients", 1, "--count", 200, "--reps", 1000, "--json", "rows.json")
    path = programs.folder / "rows.json"
    wait_until(lambda: path.exists() and path.stat().st_size > 0, "a table is written", alive=bench, limit_s=30)
    os.killpg(bench.pid, signal.SIGINT)
    ran = bench.finish()
    assert ran.status == 130, ran
    row = json.loads(path.read_text())["rows"][0]
    assert row["validity"] in ("valid", "suspect") and 0 < len(row["repetitions"]) < 1000, row


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_the_counts_agree_between_two_hosts(programs: Programs, two_hosts: NamespacePair, family: str) -> None:
    host = ADDRESSES[0]
    if family == "IPv6":
        for side in (0, 1):
            two_hosts.ip(side, f"address replace fd00:77::{side + 1}/64 dev {INTERFACES[side]} nodad")
        host = "[fd00:77::1]"
    serving = programs.start(
        *BENCH, "--listen", "--once", "--port", 0, within=lambda command: two_hosts.inside(0, command)
    )
    port = wait_until(lambda: serving.err.partition("HOST:")[2].partition("'")[0], "the server listens", alive=serving)
    sent = two_hosts.udp_datagrams_sent(1)
    ran = programs.run(
        *BENCH,
        "--peer",
        f"{host}:{port}",
        "--clients",
        4,
        *FEW,
        "--json",
        "-",
        within=lambda command: two_hosts.inside(1, command),
    )
    assert ran.status == 0, ran
    check_row(json.loads(ran.out)["rows"][0], 4, 2 * 20)
    if family == "IPv4":
        assert two_hosts.udp_datagrams_sent(1) >= sent + 2 * 20 * 3, "a REQ, an RTU and a DREQ each"
    assert serving.finish().status == 0
