# SPDX-License-Identifier: Apache-2.0
"""Each child has a time limit, and nothing of it is left when it has ended."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from cells import NoResult
from processes import Child, listens, program_of, run, run_pair, stop_on_terminate

PYTHON = sys.executable


def gone(pid: int) -> bool:
    """Wait until a process has ended; a zombie, which its new parent has not reaped, has ended."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_the_output_of_a_program_is_returned() -> None:
    assert run(["/bin/echo", "a", "b"]) == "a b\n"


def test_a_program_that_fails_is_named_with_its_status_and_its_last_words() -> None:
    with pytest.raises(NoResult, match=r"^ls failed with exit code 2: .*No such file"):
        run(["/bin/ls", "/no/such/folder"])


def test_a_program_that_a_signal_ended_has_no_result() -> None:
    with pytest.raises(NoResult, match="failed with a signal"):
        run([PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"])


def test_a_program_that_takes_too_long_is_killed() -> None:
    begin = time.monotonic()
    with pytest.raises(NoResult, match="did not finish within 0 s"):
        run(["/bin/sleep", "100"], seconds=0.2)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("end", ["exit 0", "sleep 100"])
def test_descendants_end_with_the_program(end: str) -> None:
    with Child(["/bin/sh", "-c", f"sleep 100 & echo $! && {end}"]) as child:
        child.ended(0.5)
        child._out.seek(0)
        descendant = int(child._out.read())
    assert gone(descendant)


def test_a_client_starts_when_its_server_listens(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = f"import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept(); print('served')"
    ask = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('asked')"
    printed = run_pair([PYTHON, "-c", serve], [PYTHON, "-c", ask], lambda: listens(port))
    assert printed == ("served\n", "asked\n")


def test_a_server_that_ends_at_once_says_why() -> None:
    with pytest.raises(NoResult, match=r"ls did not begin to listen: .*No such file"):
        run_pair(["/bin/ls", "/no/such/folder"], ["/bin/true"], lambda: False)


def test_the_words_of_a_server_that_failed_are_beside_those_of_its_client() -> None:
    fail = "import sys; sys.exit('{}')"
    with pytest.raises(NoResult, match=r"exit code 1: I lost the server; server: out of memory"):
        run_pair(
            [PYTHON, "-c", fail.format("out of memory")],
            [PYTHON, "-c", "import time; time.sleep(0.5); " + fail.format("I lost the server")],
            lambda: True,
        )


def test_a_udp_port_is_seen_too() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
        assert listens(port, "udp")
    assert not listens(port, "udp")


def test_the_measuring_program_is_named_and_not_its_wrappers() -> None:
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "taskset",
        "-c",
        "0",
        "env",
        "LD_PRELOAD=/a/b.so",
        "/usr/bin/ib_send_bw",
    ]
    assert program_of(command) == "/usr/bin/ib_send_bw"
    assert program_of(["true"]) == "true"


def test_a_request_to_terminate_is_like_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), stop_on_terminate():
        os.kill(os.getpid(), signal.SIGTERM)
