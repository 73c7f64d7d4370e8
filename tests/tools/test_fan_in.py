# SPDX-License-Identifier: Apache-2.0
"""`verbena bench rcud --qps`: many queue pairs send in turn to one receiver."""

import json
import re
import resource
from pathlib import Path

import pytest
from forging import (
    Row,
    expect_refused,
    expect_refused_in_csv,
    of_first,
    of_repetitions,
    rows_of_csv,
    scaled,
    together,
    with_values,
)
from programs import Programs, Ran
from rcud_rows import check_account, only, read_csv

BENCH = ("verbena", "bench", "rcud", "--quiet")
QUICK = ("--iters", 3000, "--warmup", 100)
MEMORY = 130_000 * 1024  # bytes of address space: 60,000 queue pairs need more


def measure(programs: Programs, *options: object, **more: object) -> tuple[Ran, list[dict[str, str]]]:
    ran = programs.run(*BENCH, *QUICK, *options, "--csv", "rows.csv", "--json", "rows.json", **more)
    return ran, read_csv(programs.folder / "rows.csv")[0]


@pytest.fixture(scope="module")
def measured(shared_programs: Programs) -> Path:
    ran, _ = measure(shared_programs, "--qps", "1,16,300", "--reps", 2)
    assert ran.status == 0, ran
    return shared_programs.folder


def test_rc_has_a_queue_pair_for_each_sender_and_ud_has_one(measured: Path) -> None:
    rows, _ = read_csv(measured / "rows.csv")
    assert len(rows) == 3 * 2 * 2
    for row in rows:
        assert (row["experiment"], row["msg"], row["window"], row["senders"]) == ("qp_sweep", "64", "64", "1")
        assert row["receiver_qps"] == (row["qps"] if row["mode"] == "RC" else "1")
        assert row["qps_used"] == row["qps"], "the receiver got messages of every queue pair"
        check_account(row, 2 * 3000)


def test_more_queue_pairs_than_messages_make_more_messages(programs: Programs) -> None:
    ran, rows = measure(programs, "--qps", 5000, "--window-mode", "credit", "--reps", 1)
    assert ran.status == 0 and {row["iters"] for row in rows} == {"5000"}, ran
    for row in rows:
        check_account(row, 5000)


@pytest.mark.parametrize("window_mode", ["local", "credit"])
def test_senders_are_threads_that_share_the_queue_pairs(programs: Programs, window_mode: str) -> None:
    options = ("--qps", "4,12", "--senders", "1,4", "--reps", 1, "--window-mode", window_mode)
    ran, rows = measure(programs, *options)
    assert ran.status == 0 and len(rows) == 8, ran
    for row in rows:
        check_account(row, 3000)


def test_a_slow_receiver_loses_messages_of_ud_only_without_credits(programs: Programs) -> None:
    options = ("--qps", 8, "--senders", 2, "--iters", 6000, "--warmup", 100, "--reps", 1, "--receiver-delay-ns", 20_000)
    ran = programs.run(*BENCH, *options, "--csv", "rows.csv")
    assert ran.status == 0, ran
    rows, _ = read_csv(programs.folder / "rows.csv")
    lost = {(row["mode"], row["window_mode"]): int(row["lost"]) for row in rows}
    assert lost.pop(("UD", "local")) > 0
    assert set(lost.values()) == {0}


def test_queue_pairs_that_senders_cannot_share_are_not_applicable(programs: Programs) -> None:
    ran, rows = measure(programs, "--qps", 10, "--senders", "3", "--modes", "rc", "--window-mode", "credit")
    assert ran.status == 0 and rows[0]["validity"] == "n/a", ran
    assert rows[0]["reason"] == "10 queue pairs cannot be divided equally among 3 senders"
    _, rows = measure(programs, "--qps", 64, "--senders", "64", "--windows", 4, "--modes", "rc")
    assert rows[0]["reason"] == "window 4 < 64 senders"


def test_one_sided_operations_are_not_applicable(programs: Programs) -> None:
    _, rows = measure(programs, "--qps", 4, "--ops", "write", "--modes", "rc", "--window-mode", "local")
    assert rows[0]["reason"] == "queue pairs in turn (--qps) are measured by SEND alone"


def test_queue_pairs_that_exceed_the_memory_are_a_sentence_and_no_rate(programs: Programs) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    ran, rows = measure(
        programs, "--qps", "4,60000", "--reps", 1, "--modes", "rc", "--window-mode", "credit", preexec_fn=little_memory
    )
    assert ran.status == 1 and "60000 queue pairs" in ran.err, ran
    few, many = only(rows, qps=4), only(rows, qps=60000)
    assert few["validity"] in ("valid", "suspect") and float(few["mops"]) > 0
    assert many["validity"] == "invalid" and float(many["mops"]) == 0
    # The NIC or the program is the first to need more.
    said = r"queue pair \d+ of 60000: ibv_\w+_qp.*: Cannot allocate memory|no memory is left"
    assert re.search(said, many["reason"]), many


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--senders", 2), "--senders requires --qps"),
        (("--qps", 0), "sizes begin at 1"),
        (("--qps", 70000), "Value 70000 not in range 1 to 65536"),
        (("--qps", 4, "--connect", "rdmacm"), "--qps connects its queue pairs by exchange alone"),
    ],
)
def test_a_mistake_is_said_in_one_line(programs: Programs, options: tuple[object, ...], says: str) -> None:
    ran = programs.run(*BENCH, *options)
    assert ran.status == 2 and says in ran.err, ran


def test_an_interrupted_sweep_goes_on(programs: Programs) -> None:
    options = ("--qps", "2,4", "--window-mode", "credit")
    measure(programs, *options, "--reps", 1)
    ran, rows = measure(programs, *options, "--reps", 2, "--resume", "rows.json")
    assert ran.status == 0 and {len(json.loads(row["repetitions"])) for row in rows} == {2}, ran


SIXTEEN = {"qps": 16, "window_mode": "credit"}
FORGERIES = {
    "more queue pairs": ("RC", with_values(qps=1000, receiver_qps=1000, qps_used=1000)),
    "more queue pairs in the repetitions too": (
        "RC",
        together(
            with_values(qps=1000, receiver_qps=1000), of_repetitions(with_values(receiver_qps=1000))
        ),
    ),
    "more queue pairs of UD": ("UD", with_values(qps=1000)),
    "fewer queue pairs": ("RC", with_values(qps=1, receiver_qps=1, qps_used=1)),
    "UD sold as RC": ("UD", with_values(mode="RC")),
    "RC sold as UD": ("RC", with_values(mode="UD", receiver_qps=1)),
    "many queue pairs of UD at the receiver": ("UD", with_values(receiver_qps=16)),
    "queue pairs that sent nothing": ("RC", together(with_values(qps_used=3), of_first(with_values(qps_used=3)))),
    "no queue pair used": ("UD", together(with_values(qps_used=0), of_repetitions(with_values(qps_used=0)))),
    "more used than there are": ("UD", together(with_values(qps_used=99), of_repetitions(with_values(qps_used=99)))),
    "more senders": ("RC", with_values(senders=3)),
    "no senders": ("RC", with_values(senders=None)),
    "a window below one a sender": ("RC", with_values(senders=16, window=4)),
    "a sweep of messages": ("RC", with_values(experiment="msg_sweep")),
    "a sweep of messages without the columns": (
        "RC",
        with_values(experiment="msg_sweep", qps=None, senders=None, receiver_qps=None, qps_used=None),
    ),
    "repetitions without their queue pairs": ("RC", of_repetitions(lambda one: one.pop("qps_used"))),
    "another operation": ("RC", with_values(op="write")),
    "cut messages": ("UD", with_values(mode="UD-seg")),
    "reordered": ("RC", together(with_values(reordered=7), of_first(with_values(reordered=7)))),
    "a higher rate": ("UD", scaled(1.5, "mops", "gib")),
}  # fmt: skip


def the_row(document: dict, mode: str) -> Row:
    wanted = SIXTEEN | {"mode": mode}
    document["rows"] = [row for row in document["rows"] if wanted.items() <= row.items()]
    return document["rows"][0]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_row_of_many_queue_pairs_is_invalid(programs: Programs, measured: Path, name: str) -> None:
    mode, forge = FORGERIES[name]
    document = json.loads((measured / "rows.json").read_text())
    expect_refused(programs, document, the_row(document, mode), forge)


@pytest.mark.parametrize(("column", "forged"), [("qps", "32"), ("receiver_qps", "1"), ("qps_used", "15")])
def test_forged_queue_pairs_are_found_in_csv_too(programs: Programs, measured: Path, column: str, forged: str) -> None:
    rows = rows_of_csv(measured / "rows.csv")
    row = next(row for row in rows if row["mode"] == "RC" and row["qps"] == "16")
    expect_refused_in_csv(programs, row, column, forged)
