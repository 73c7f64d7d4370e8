# SPDX-License-Identifier: Apache-2.0
"""Each failure has one sentence that says why: on standard error with VERBENA_LOG=warn, in the
trace, and by `verbena why`.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from traced import NIC, VERBENA, Traced, free_port

# The mistake, the status of the request, and the sentences that the requester and its peer write.
SITUATIONS = {
    "rnr": (
        "RNR retry counter exceeded",
        r"SEND wr_id 77 on QP 0x\w+ failed with IBV_WC_RNR_RETRY_EXC_ERR: QP 0x\w+ of process \d+ \(failures\) "
        r"refused it: it has no receive posted \(0 posted, 0 used so far\); rnr_retry 2 is used up",
    ),
    "unknown": (
        "remote access error",
        r"RDMA WRITE wr_id 77 on QP 0x\w+ failed with IBV_WC_REM_ACCESS_ERR: QP 0x\w+ of process \d+ \(failures\) "
        r"refused it: rkey 0x\w+ names no memory region of that process",
    ),
    "retired": (
        "remote access error",
        r"rkey 0x\w+ belonged to the region \[0x\w+, 0x\w+\), which was deregistered [\d.]+ (us|ms|s) before",
    ),
    "bounds": (
        "remote access error",
        r"names \[0x\w+, 0x\w+\), and the request uses \[0x\w+, 0x\w+\), 48 bytes past its end",
    ),
    "rights": (
        "remote access error",
        r"which lacks REMOTE_WRITE \(it has LOCAL_WRITE\|REMOTE_READ\)",
    ),
    "domain": ("remote access error", r"of another protection domain than the queue pair"),
    "queue_pair_rights": (
        "remote invalid request error",
        r"its qp_access_flags lack REMOTE_WRITE \(they are REMOTE_READ\)",
    ),
    "too_long": (
        "remote invalid request error",
        r"the receive wr_id 55 has 16 bytes, and the message has 64 or more",
    ),
    "receive_key": (
        "remote operation error",
        r"segment 0 of a receive that is posted there is wrong: lkey 0xbad names no memory region",
    ),
    "unaligned": ("remote invalid request error", r"the address 0x\w+4 of an atomic is no multiple of 8"),
    "local_key": (
        "local protection error",
        r"SEND wr_id 77 on QP 0x\w+ failed with IBV_WC_LOC_PROT_ERR: segment 0 is wrong: lkey 0xbad names no",
    ),
    "bind": (
        "memory management operation error",
        r"bind wr_id 77 on QP 0x\w+ failed with IBV_WC_MW_BIND_ERR: the region \[0x\w+, 0x\w+\) lacks "
        r"IBV_ACCESS_MW_BIND; register it with that access flag",
    ),
    "invalidate": (
        "local QP operation error",
        r"local invalidate wr_id 77 on QP 0x\w+ failed with IBV_WC_LOC_QP_OP_ERR: rkey 0x\w+ names no window of type 2",
    ),
    "exit": (
        "transport retry counter exceeded",
        r"failed with IBV_WC_RETRY_EXC_ERR: (process \d+|a process that has ended).* before it acknowledged",
    ),
    "killed": (
        "transport retry counter exceeded",
        r"failed with IBV_WC_RETRY_EXC_ERR: (process \d+|a process that has ended).* before it acknowledged",
    ),
    "not_ready": (
        "transport retry counter exceeded",
        r"did not acknowledge it: no queue pair 0x\w+ there could receive for the time of 2 retries",
    ),
    "overrun": (
        "CQ error",
        r"A completion queue of 1 entries overran: all hold completions that were not polled",
    ),
    "flush": (
        "Work Request Flushed Error",
        r"QP 0x\w+ went to ERR because the program called ibv_modify_qp with IBV_QPS_ERR, or disconnected, so 0 "
        r"sends and 3 receives completed with IBV_WC_WR_FLUSH_ERR; the peer is process \d+ \(failures\)",
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("direct", ["0", "1"])
def test_a_failure_is_explained_on_standard_error(failures: Path, situation: str, direct: str) -> None:
    status, sentence = SITUATIONS[situation]
    environment = os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_LOG": "warn", "VERBENA_DIRECT": direct}
    ran = subprocess.run(
        [failures, situation], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert ran.stdout == status + "\n", ran
    assert re.search(sentence, ran.stderr), ran.stderr


def test_nothing_is_explained_at_the_default_level(failures: Path) -> None:
    ran = subprocess.run(
        [failures, "rnr"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"LD_PRELOAD": str(NIC)},
        check=False,
    )
    assert ran.stderr == ""


@pytest.mark.parametrize("name", ["trace.txt", "trace.json"])
def test_why_prints_the_sentences_of_both_processes_of_a_trace(traced: Traced, failures: Path, name: str) -> None:
    ran = traced.runner.run([*traced.words(name), str(failures), "bounds"])
    assert ran.status == 0, ran
    why = subprocess.run([VERBENA, "why", traced.folder / name], capture_output=True, text=True, timeout=20, check=True)
    assert re.search(SITUATIONS["bounds"][1], why.stdout), why.stdout
    assert re.search(r"QP 0x\w+ refused a request of QP 0x\w+ of process \d+ \(failures\): rkey", why.stdout)
    assert re.search(r"^1\. ", why.stdout)


def test_why_of_a_trace_without_failures_says_so(traced: Traced) -> None:
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", "3"], "trace.txt")
    why = subprocess.run(
        [VERBENA, "why", traced.folder / "client-trace.txt"], capture_output=True, text=True, timeout=20, check=True
    )
    assert why.stdout.startswith("Nothing in the trace failed")


def test_why_of_a_file_that_does_not_exist_ends_with_status_1(traced: Traced) -> None:
    ran = traced.runner.run([VERBENA, "why", "/no/such/file"])
    assert ran.status == 1 and "/no/such/file" in ran.output


def test_a_process_that_runs_without_verbena_run_leaves_a_folder_that_why_reads(tmp_path: Path, failures: Path) -> None:
    environment = os.environ | {"LD_PRELOAD": str(NIC), "VERBENA_TRACE": str(tmp_path)}
    subprocess.run([failures, "rights"], capture_output=True, timeout=60, env=environment, check=True)
    why = subprocess.run([VERBENA, "why", tmp_path], capture_output=True, text=True, timeout=20, check=True)
    assert re.search(SITUATIONS["rights"][1], why.stdout), why.stdout


@pytest.mark.parametrize("text", [b"\x00\xff\x80 bytes", b"a log\n", b'{"event": 5}\n', b'{"event"'])
def test_why_of_a_file_that_is_no_trace_says_so(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "file").write_bytes(text)
    for path in (tmp_path / "file", tmp_path):
        why = subprocess.run([VERBENA, "why", path], capture_output=True, text=True, timeout=20, check=False)
        assert why.returncode == 1 and "no trace" in why.stderr and str(path) in why.stderr, why


def test_a_rejected_connection_is_explained(traced: Traced) -> None:
    port = free_port()
    environment = os.environ | {"VERBENA_LOG": "warn"}
    words = [*traced.words("trace.txt"), "rping", "-c", "-a", "127.0.0.1", "-p", str(port), "-C", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)
    sentence = rf"rdma_connect to 127\.0\.0\.1 port {port} was rejected: no program of this user on this host listens"
    assert re.search(sentence, ran.stderr), ran
    assert re.search("why: " + sentence, traced.text("trace.txt"))
