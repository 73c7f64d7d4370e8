# SPDX-License-Identifier: Apache-2.0
"""`verbena top`, `run --metrics` and `run --stats`: counters and queue pairs, seen from outside."""

import json
import os
import re
import resource
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traced import VERBENA, Traced, free_port, listens

LIMIT_S = 30


def top(*options: str, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    words = [*(before or []), VERBENA, "top", "--interval", "0.1", *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True)


def processes(**options: Any) -> list[dict[str, Any]]:
    return json.loads(top("--json", "--count", "1", **options).stdout)["processes"]


def awaited(look: Callable[[], Any]) -> Any:
    """Return the first value that is true."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if found := look():
            return found
    pytest.fail(f"not seen within {LIMIT_S} s")


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.fixture
def waits(failures: Path, traced: Traced) -> tuple[int, int]:
    """Run a program whose request waits for a receive of its child; the two processes."""
    process, _ = traced.runner.start([VERBENA, "run", "--", str(failures), "waits"])

    def look() -> tuple[int, int] | None:
        try:
            return process.pid, child_of(process.pid)
        except IndexError:
            return None

    return awaited(look)


def test_top_says_who_waits_for_whom(waits: tuple[int, int]) -> None:
    requester, responder = waits

    def look() -> str | None:
        page = top("--count", "1").stdout
        return page if f"a receive of {responder} failures" in page else None

    page = awaited(look)
    line = next(line for line in page.splitlines() if "a receive of" in line)
    assert re.match(rf" *{requester} +0x[0-9a-f]+ +RC +RTS +1 +0 ", line), page
    assert f" of {responder} failures" in line

    [one] = [each for each in processes() if each["pid"] == requester]
    [queue_pair] = one["queue_pairs"]
    assert queue_pair["waits_for"] == "receive"
    assert queue_pair["sends_open"] == 1
    assert queue_pair["peer_pid"] == responder
    assert queue_pair["link"] == "memory"
    assert one["counters"]["hw_counters/rcvd_rnr_err"] > 0


def why(pid: int) -> str:
    words = [VERBENA, "why", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout


def test_why_says_for_what_a_process_that_hangs_is_waiting(waits: tuple[int, int]) -> None:
    requester, responder = waits
    sentence = (
        rf"QP 0x[0-9a-f]+ waits with 1 send request: QP 0x[0-9a-f]+ of process {responder} \(failures\) has no receive "
        r"posted \(0 posted, 0 used so far\)"
    )
    awaited(lambda: any(each["pid"] == requester and each["queue_pairs"] for each in processes()))
    awaited(lambda: re.search(sentence, why(requester)))
    os.kill(responder, signal.SIGSTOP)
    awaited(lambda: f"process {responder} is stopped, by a signal or a debugger" in why(requester))
    stopped = subprocess.run(
        [VERBENA, "why", str(responder)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert stopped.returncode == 1
    assert "is stopped and cannot be asked" in stopped.stderr


def test_why_of_a_process_without_the_nic_ends_with_a_sentence() -> None:
    done = subprocess.run(
        [VERBENA, "why", str(os.getpid())], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 1
    assert "verbena top lists them" in done.stderr


def test_top_has_the_rates_of_a_transfer(traced: Traced) -> None:
    port = free_port()
    server = [VERBENA, "run", "--", "ib_write_bw", "-x", "0", "--run_infinitely", "-p", str(port)]
    started, _ = traced.runner.start(server)
    awaited(lambda: listens(started.pid, port))
    client, _ = traced.runner.start([*server, "127.0.0.1"])

    def look() -> dict[str, Any] | None:
        for each in processes():
            if each["pid"] == client.pid and each["bytes_sent_per_second"] > 1e6:
                return next((qp for qp in each["queue_pairs"] if qp["sends_per_second"] > 10), None)
        return None

    assert awaited(look)["peer_pid"] == started.pid


def test_a_process_that_is_stopped_does_not_hold_up_top(waits: tuple[int, int]) -> None:
    requester, responder = waits
    awaited(lambda: any(each["pid"] == responder for each in processes()))
    os.kill(responder, signal.SIGSTOP)
    assert any(each["pid"] == requester for each in processes())


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_process_without_a_descriptor_for_the_question_does_not_spin(traced: Traced) -> None:
    # rping's server sleeps until a client comes.
    server, _ = traced.runner.start([VERBENA, "run", "--", "rping", "-s", "-p", str(free_port())])
    awaited(lambda: any(each["pid"] == server.pid for each in processes()))
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (4, 4))
    assert not any(each["pid"] == server.pid for each in processes())
    # The question that it could not accept is still there.
    before, began = processor_seconds(server.pid), time.monotonic()
    top("--count", "10")
    assert processor_seconds(server.pid) - before < (time.monotonic() - began) / 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start programs of other users")
def test_another_user_sees_nothing(waits: tuple[int, int]) -> None:
    awaited(lambda: {each["pid"] for each in processes()} >= set(waits))
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    seen = processes(before=nobody)
    assert not {each["pid"] for each in seen} & set(waits)


def scrape(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def test_metrics_have_the_names_of_node_exporter(failures: Path, traced: Traced) -> None:
    process, log = traced.runner.start([VERBENA, "run", "--metrics", "0", "--", str(failures), "waits"])
    port = int(awaited(lambda: re.search(r"metrics at port (\d+)", log.read_text()))[1])

    def look() -> str | None:
        text = scrape(f"http://127.0.0.1:{port}/metrics") or ""
        return text if re.search(r"^verbena_queue_pairs_waiting_for_receive\{.*\} 1$", text, re.M) else None

    text = awaited(look)
    name = r'\{device="verbena",port="1",pid="\d+",program="failures"\}'
    assert len(re.findall(rf"^node_infiniband_port_packets_transmitted_total{name} \d+", text, re.M)) == 2
    received = re.findall(rf"^node_infiniband_rnr_nak_retry_packets_received_total{name} (\d+)", text, re.M)
    assert sum(map(int, received)) > 0
    assert re.search(rf"^node_infiniband_port_data_transmitted_bytes_total{name} [1-9]", text, re.M)
    process.terminate()
    assert process.wait(LIMIT_S) == -15  # the program's signal, although a port was served


def test_metrics_at_a_port_that_is_taken_end_before_the_program_starts(traced: Traced, tmp_path: Path) -> None:
    made = tmp_path / "made"
    ran = traced.runner.run([VERBENA, "run", "--metrics", "192.0.2.77:1", "--", "touch", str(made)])
    assert ran.status == 1
    assert "metrics cannot be served" in ran.output
    assert not made.exists()


def test_stats_are_printed_when_the_program_ends(failures: Path, traced: Traced) -> None:
    ran = traced.runner.run([VERBENA, "run", "--stats", "--", str(failures), "rnr"])
    assert ran.status == 0, ran
    assert re.search(r"^verbena: failures \(\d+\): counters/port_xmit_packets [1-9]", ran.output, re.M), ran
    assert re.search(r"^verbena: failures \(\d+\): hw_counters/retry_rnr_exceeded_err 1$", ran.output, re.M), ran
    assert not re.search(r" 0$", ran.output, re.M), ran
