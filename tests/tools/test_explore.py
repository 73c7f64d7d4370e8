# SPDX-License-Identifier: Apache-2.0
"""`verbena explore`: finds the planted bug of examples/adversary, and prints what repeats it."""

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from programs import BUILD, ROOT, Programs, wait_until

LIMIT_S = 120


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("explore") / "mailbox"
    source = ROOT / "examples" / "adversary" / "mailbox.c"
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source), "-libverbs"], check=True, timeout=LIMIT_S)
    return str(program)


def test_it_finds_the_bug_of_order_and_its_kind(programs: Programs, mailbox: str, tmp_path: Path) -> None:
    report = tmp_path / "found.json"
    ran = programs.run("verbena", "explore", "--runs", "10", "--json", str(report), "--", mailbox, limit_s=LIMIT_S)
    assert ran.status == 1, ran
    assert "bytes are old" in ran.out and "it takes: placement\n" in ran.out, ran
    found = json.loads(report.read_text())
    assert found["model"] == "tso" and 1 <= found["runs"] <= 10
    (failure,) = found["failures"]
    assert failure["takes"] == ["placement"] and failure["failure"] == "exit status 1"
    # The printed command repeats the failure; the schedule of a busy machine may hide it once.
    words = shlex.split(failure["command"])
    assert words[:2] == ["verbena", "run"] and f"repeat it: {failure['command']}\n" in ran.out
    command = [str(BUILD / "verbena"), *words[1:]]
    again = [subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False).returncode for _ in range(5)]
    assert 1 in again


def test_it_finds_nothing_in_the_mended_program(programs: Programs, mailbox: str) -> None:
    ran = programs.run("verbena", "explore", "--runs", "5", "--", mailbox, "notify", limit_s=LIMIT_S)
    assert ran.status == 0 and "5 runs under tso, 0 failed\n" in ran.out, ran


def test_a_program_that_always_fails_is_said_to(programs: Programs) -> None:
    ran = programs.run("verbena", "explore", "--", "false")
    assert (
        ran.status == 3
        and "the program fails without --adversary, too (exit status 1): first make it pass under" in ran.err
    ), ran


def test_a_program_that_does_not_exist_does_not_fail_on_the_nic(programs: Programs) -> None:
    ran = programs.run("verbena", "explore", "--", "nosuch")
    assert ran.status == 127 and "cannot run nosuch: there is no such program" in ran.err, ran


def test_ctrl_c_writes_the_runs_so_far(programs: Programs, tmp_path: Path) -> None:
    report, count = tmp_path / "found.json", tmp_path / "count"
    script = f"echo >>{count}; test $(wc -l <{count}) -lt 3 || exec sleep 1000"
    exploring = programs.start("verbena", "explore", "--json", report, "--", "sh", "-c", script)
    wait_until(lambda: count.exists() and len(count.read_text()) >= 3, "the third run has begun", alive=exploring)
    ran = exploring.end(signal.SIGINT)
    assert ran.status == 130 and "ended by Ctrl-C after 1 runs" in ran.out, ran
    found = json.loads(report.read_text())
    assert found["interrupted"] and found["runs"] == 1 and found["failures"] == [], found


def test_a_file_that_cannot_be_written_is_refused_before_the_first_run(programs: Programs, tmp_path: Path) -> None:
    """The program ran as often as was asked for, and then its results were lost."""
    for path, reason in (("/nonexistent/found.json", "No such file or directory"), (str(tmp_path), "Is a directory")):
        began = tmp_path / "began"
        ran = programs.run("verbena", "explore", "--runs", 3, "--json", path, "--", "touch", began)
        assert (ran.status, ran.out, ran.err) == (2, "", f"verbena: cannot write {path}: {reason}\n"), ran
        assert not began.exists()


def test_a_full_disk_is_named_after_the_runs(programs: Programs) -> None:
    ran = programs.run("verbena", "explore", "--runs", 1, "--json", "/dev/full", "--", "true")
    assert ran.status == 1 and ran.err == "verbena: cannot write /dev/full: No space left on device\n", ran


def test_a_program_that_hangs_is_ended(programs: Programs) -> None:
    ran = programs.run("verbena", "explore", "--timeout", "0.2", "--", "sleep", "1000")
    assert ran.status == 3 and "not done after 0.2 s" in ran.err, ran


def test_a_server_runs_beside_the_program(programs: Programs) -> None:
    port = "7183"
    server = f"ibv_rc_pingpong -g 0 -n 50 -p {port}"
    client = ["ibv_rc_pingpong", "-g", "0", "-n", "50", "-p", port, "localhost"]
    ran = programs.run("verbena", "explore", "--runs", "3", "--server", server, "--", *client, limit_s=LIMIT_S)
    assert ran.status == 0 and "3 runs under tso, 0 failed\n" in ran.out, ran


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--faults", "seed=7"], "--faults: 'seed=7' cannot be explored"),
        (["--faults", "los=1%"], "--faults: 'los' is no word of --faults (did you mean 'loss'?)"),
        (["--model", "tsa"], "--model"),
        (["--runs", "0"], "--runs"),
    ],
)
def test_a_wrong_option_is_named(programs: Programs, options: list[str], message: str) -> None:
    ran = programs.run("verbena", "explore", *options, "--", "true")
    assert ran.status == 2 and message in ran.err, ran
