# SPDX-License-Identifier: Apache-2.0
"""`verbena bench rcud` between two processes: each row must agree with the receiver's counts."""

import contextlib
import json
import os
import pty
from pathlib import Path

import pytest
from programs import Programs, Ran, wait_until
from rcud_rows import FIRST_COLUMNS, FURTHER_COLUMNS, Row, check_account, only, read_csv, read_json

BENCH = ("verbena", "bench", "rcud", "--quiet")
QUICK = ("--iters", 2000, "--warmup", 200, "--reps", 2)
FEW = ("--iters", 500, "--warmup", 50, "--reps", 2)


def measure(programs: Programs, *options: object) -> tuple[Ran, list[Row]]:
    ran = programs.run(*BENCH, *options, "--csv", "rows.csv")
    return ran, read_csv(programs.folder / "rows.csv")[0]


@pytest.fixture(scope="module")
def sweep(shared_programs: Programs) -> tuple[Path, Ran]:
    """One run with both transports and window modes and with a size above the MTU."""
    ran = shared_programs.run(
        *BENCH, "--sizes", "64,8K", "--windows", "4,64", *QUICK, "--csv", "rows.csv", "--md", "rows.md", "--json", "-"
    )
    assert ran.status == 0, ran
    (shared_programs.folder / "rows.json").write_text(ran.out)
    return shared_programs.folder, ran


def test_the_published_columns_come_first_and_the_receivers_counts_follow(sweep: tuple[Path, Ran]) -> None:
    header = (sweep[0] / "rows.csv").read_text().splitlines()[0]
    assert header.startswith(FIRST_COLUMNS + ",")
    assert set(FURTHER_COLUMNS) <= set(header.split(","))


def test_every_cell_of_the_sweep_is_a_row(sweep: tuple[Path, Ran]) -> None:
    rows, _ = read_csv(sweep[0] / "rows.csv")
    cells = {(row["mode"], row["msg"], row["window"], row["window_mode"]) for row in rows}
    assert len(rows) == len(cells) == 2 * 2 * 2 * 2
    assert {row["experiment"] for row in rows} == {"msg_sweep"}
    assert {row["iters"] for row in rows} == {"2000"}


def test_the_receiver_gets_all_messages_of_rc_and_of_ud_with_credits(sweep: tuple[Path, Ran]) -> None:
    rows, _ = read_csv(sweep[0] / "rows.csv")
    measured = [row for row in rows if row["validity"] != "n/a"]
    assert len(measured) == 12
    for row in measured:
        check_account(row, 2 * 2000)
        assert float(row["p50_us"]) <= float(row["p99_us"])
        assert (
            row["rtt_class"] in ("smt", "near", "far", "mixed")
            and float(row["rtt_before_ns"]) > 0
            and float(row["rtt_after_ns"]) > 0
        )
        rates = [each["mops"] for each in json.loads(row["repetitions"])]
        assert len(rates) == 2 and min(rates) <= float(row["mops"]) <= max(rates)


def test_ud_above_the_mtu_is_not_applicable_and_says_why(sweep: tuple[Path, Ran]) -> None:
    rows, _ = read_csv(sweep[0] / "rows.csv")
    above = [row for row in rows if row["mode"] == "UD" and row["msg"] == "8192"]
    assert len(above) == 4
    for row in above:
        assert (row["mops"], row["gib"], row["delivered"], row["validity"]) == ("", "", "", "n/a")
        assert row["reason"] == "msg 8192 > UD max 4096"


def test_every_file_contains_the_environment(sweep: tuple[Path, Ran]) -> None:
    folder, _ = sweep
    _, environment = read_csv(folder / "rows.csv")
    assert environment["device"] == "vb_lo" and environment["kind"] == "software" and environment["mtu"] == "4096"
    assert environment["gid"].count(":") == 7
    assert environment["connect"] == "exchange"
    for key in ("link", "cpu", "kernel", "commit", "date", "command"):
        assert environment[key], key
    assert float(environment["core_to_core_ns"]) > 0
    assert read_json(folder / "rows.json")[1] == environment
    markdown = (folder / "rows.md").read_text()
    for key, value in environment.items():
        assert f"- {key}: {value}\n" in markdown


def test_json_has_the_rows_of_the_csv_and_the_counts_of_every_repetition(sweep: tuple[Path, Ran]) -> None:
    rows, _ = read_csv(sweep[0] / "rows.csv")
    objects, _ = read_json(sweep[0] / "rows.json")
    assert len(objects) == len(rows)
    for row, same in zip(rows, objects, strict=True):
        for name in ("mode", "msg", "window", "window_mode", "posted", "delivered", "validity", "reason"):
            assert row[name] == ("" if same[name] is None else str(same[name])), name
        if row["validity"] == "n/a":
            assert same["mops"] is None
            continue
        counts = same["repetitions"]
        assert len(counts) == 2
        assert sum(each["delivered"] for each in counts) == int(row["delivered"])
        histograms = [each.pop("latency_ns") for each in counts]
        assert counts == json.loads(row["repetitions"]), "CSV leaves out the histograms alone"
        for histogram in histograms:
            assert histogram["count"] == sum(count for _, count in histogram["buckets"]) > 0


def test_markdown_is_aligned_with_three_digits(sweep: tuple[Path, Ran]) -> None:
    table = [line for line in (sweep[0] / "rows.md").read_text().splitlines() if line.startswith("|")]
    assert len(table) == 2 + 16
    assert len({len(line) for line in table}) == 1
    heads = [cell.strip() for cell in table[0].strip("|").split("|")]
    for line in table[2:]:
        cells = dict(zip(heads, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        for name in ("mops", "gib"):
            digits = cells[name].replace(".", "").lstrip("0")
            assert cells[name] == "n/a" or len(digits) == 3 or float(cells[name]) >= 1000, line


def test_credits_limit_the_sender_to_the_rate_of_a_slow_receiver_and_nothing_is_lost(programs: Programs) -> None:
    ran, rows = measure(
        programs, "--sizes", 64, "--windows", "4,64", "--window-mode", "credit", "--receiver-delay-ns", 20000, *FEW
    )
    assert ran.status == 0, ran
    assert len(rows) == 4
    for row in rows:
        check_account(row, 2 * 500)
        assert float(row["mops"]) <= 0.051, f"the receiver takes 20 us a message: {row}"


def test_a_local_window_over_ud_loses_at_a_slow_receiver_and_the_row_is_suspect(programs: Programs) -> None:
    cell = ("--modes", "ud", "--sizes", 64, "--windows", 64, "--window-mode", "local")
    ran, (row,) = measure(programs, *cell, "--recv-depth", 64, "--receiver-delay-ns", 20000, *QUICK, "--post-list", 16)
    assert ran.status == 0, ran
    check_account(row, 2 * 2000)
    assert int(row["lost"]) > 0.01 * 4000
    assert row["validity"] == "suspect" and f"{row['lost']} of 4000 lost" in row["reason"]


def test_segmented_ud_is_labelled_and_delivers_whole_messages(programs: Programs) -> None:
    ran, rows = measure(
        programs, "--modes", "ud", "--sizes", "4K,8K", "--windows", 4, "--ud-oversize", "segment", *QUICK
    )
    assert ran.status == 0, ran
    assert [row["mode"] for row in rows] == ["UD", "UD-seg", "UD", "UD-seg"]
    for row in rows:
        check_account(row, 2 * 2000)


def test_raw_ud_above_the_mtu_delivers_nothing_and_is_invalid(programs: Programs) -> None:
    once = ("--iters", 1000, "--warmup", 0, "--reps", 1)
    ran, rows = measure(programs, "--modes", "ud", "--sizes", "8K", "--windows", 4, "--ud-oversize", "raw", *once)
    assert ran.status == 0, f"it was asked for{ran}"
    assert len(rows) == 2
    for row in rows:
        assert (row["delivered"], row["validity"]) == ("0", "invalid"), row
        assert float(row["mops"]) == float(row["gib"]) == 0
        assert "larger than the MTU of 4096 B" in row["reason"]
    assert only(rows, window_mode="local")["completed"] == "1000", "no error: the sender is told that all left"


@pytest.mark.parametrize("options", [pytest.param([], id="polled"), pytest.param(["--passive-target"], id="passive")])
def test_writes_and_reads_are_verified_to_the_last_message(programs: Programs, options: list[str]) -> None:
    ran, rows = measure(
        programs, "--ops", "write,read", "--modes", "rc,ud", "--sizes", "64,8K", "--windows", "4", *QUICK, *options
    )
    assert ran.status == 0, ran
    for op in ("write", "read"):
        for window_mode in ("local", "credit"):
            for msg in (64, 8192):
                check_account(only(rows, mode="RC", op=op, window_mode=window_mode, msg=msg), 2 * 2000)
                assert (
                    only(rows, mode="UD", op=op, window_mode=window_mode, msg=msg)["reason"] == f"UD has no RDMA {op}"
                )


@pytest.mark.parametrize("connect", ["exchange", "rdmacm"])
def test_every_byte_is_checked_and_the_cost_of_that_is_measured(programs: Programs, connect: str) -> None:
    options = ("--ops", "send,write,read", "--sizes", "8,33,4K", "--windows", 4, "--connect", connect, *QUICK)
    ran = programs.run("verbena", "bench", "rcud", "--verify", *options, "--csv", "rows.csv")
    assert ran.status == 0, ran
    rows, environment = read_csv(programs.folder / "rows.csv")
    measured = [row for row in rows if row["validity"] != "n/a"]
    assert len(measured) == 2 * 3 * 3 + 2 * 2
    for row in measured:
        check_account(row, 2 * 2000)
        assert row["checked"] == "bytes" and float(row["mops_unverified"]) > 0
    small = only(rows, mode="UD", op="send", msg=8, window_mode="local")
    assert small["reason"] == "msg 8 < 16: no room to check the stamp by which UD is counted"
    assert environment["verification"].startswith("every byte of every message; the rate is ")
    assert environment["settings"].endswith(", verify")
    assert ran.err.splitlines()[-1] == f"verification: {environment['verification']}"
    assert programs.run("verbena", "check", "rows.csv").status == 0


def test_segmented_messages_are_checked_in_every_byte(programs: Programs) -> None:
    ran, rows = measure(
        programs, "--verify", "--modes", "ud", "--sizes", "8K", "--windows", 4, "--ud-oversize", "segment", *QUICK
    )
    assert ran.status == 0, ran
    for row in rows:
        check_account(row, 2 * 2000)
        assert (row["mode"], row["checked"]) == ("UD-seg", "bytes")


def test_without_the_option_only_stamps_are_checked_and_the_row_says_so(sweep: tuple[Path, Ran]) -> None:
    rows, environment = read_csv(sweep[0] / "rows.csv")
    assert {row["checked"] for row in rows if row["validity"] != "n/a"} == {"stamps"}
    assert "verification" not in environment


def test_the_counts_of_rc_over_rdma_cm_and_of_ud_beside_it_add_up(programs: Programs) -> None:
    ran, rows = measure(programs, "--connect", "rdmacm", "--sizes", "64,8K", "--windows", "4,64", *QUICK)
    assert ran.status == 0, ran
    for row in rows:
        if row["validity"] == "n/a":
            assert row["reason"] == "msg 8192 > UD max 4096"
        else:
            check_account(row, 2 * 2000)
    assert len(rows) == 16
    assert read_csv(programs.folder / "rows.csv")[1]["connect"] == "rdmacm"


def test_writes_and_reads_over_connections_of_rdma_cm(programs: Programs) -> None:
    cells = ("--modes", "rc", "--ops", "write,read", "--sizes", "64,8K", "--windows", 4)
    ran, rows = measure(programs, "--connect", "rdmacm", *cells, *QUICK)
    assert ran.status == 0, ran
    assert len(rows) == 8
    for row in rows:
        check_account(row, 2 * 2000)


def test_the_counts_of_lists_of_requests_and_of_unsignaled_runs_add_up(programs: Programs) -> None:
    ran, rows = measure(programs, "--sizes", 64, "--windows", 64, "--post-list", 8, "--signal-every", 16, *QUICK)
    assert ran.status == 0, ran
    for row in rows:
        check_account(row, 2 * 2000)


def test_a_minimal_time_runs_more_messages_and_reports_their_number(programs: Programs) -> None:
    once = ("--min-time", 0.05, "--iters", 100, "--warmup", 500, "--reps", 1)
    ran, rows = measure(programs, "--modes", "rc", "--sizes", 64, "--windows", 4, *once)
    assert ran.status == 0, ran
    for row in rows:
        assert int(row["iters"]) > 100
        check_account(row, int(row["iters"]))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--sizes", "0"), ("--sizes", "64:32"), ("--sizes", "12x"), ("--sizes", ""), ("--sizes", "1G"),
        ("--windows", "0"), ("--windows", "-4"), ("--windows", "4,x"), ("--windows", "8192"),
        ("--modes", "rc,tcp"), ("--modes", ""), ("--ops", "poke"), ("--window-mode", "both"),
        ("--ud-oversize", "maybe"),
        ("--iters", "0"), ("--iters", "many"), ("--reps", "0"), ("--connect", "magic"), ("--frobnicate", "1"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_usage_errors(programs: Programs, option: str, value: str) -> None:
    ran = programs.run(*BENCH, option, value)
    assert ran.status == 2 and ran.out == "", ran
    assert option in ran.err or value in ran.err, ran


def test_an_unknown_device_is_named(programs: Programs) -> None:
    ran = programs.run(*BENCH, "--device", "mlx5_7", *QUICK)
    assert ran.status == 1 and "no device 'mlx5_7'" in ran.err, ran


def test_a_table_that_cannot_be_written_is_a_failure(programs: Programs) -> None:
    ran = programs.run(
        *BENCH, "--sizes", 64, "--windows", 4, "--iters", 100, "--reps", 1, "--csv", "/no/such/folder/rows.csv"
    )
    assert ran.status == 1 and "/no/such/folder/rows.csv" in ran.err, ran


def test_progress_is_printed_on_a_terminal_and_only_there(programs: Programs, sweep: tuple[Path, Ran]) -> None:
    assert sweep[1].err == ""
    terminal, other_end = pty.openpty()
    try:
        command = ("verbena", "bench", "rcud", "--sizes", 64, "--windows", 4, *QUICK, "--json", "rows.json")
        program = programs.start(*command, stderr=other_end)
        shown = b""
        os.set_blocking(terminal, False)

        def ended() -> bool:
            nonlocal shown
            over = not program.running
            with contextlib.suppress(BlockingIOError):
                shown += os.read(terminal, 65536)
            return over

        wait_until(ended, "the sweep ends")
        assert program.finish().status == 0
    finally:
        os.close(terminal)
        os.close(other_end)
    text = shown.decode()
    assert "device: vb_lo" in text
    assert "8 of 8: UD send 64 B window 4 credit, repetition 2" in text, text
    assert len(json.loads((programs.folder / "rows.json").read_text())["rows"]) == 4
