# SPDX-License-Identifier: Apache-2.0
"""Programs whose standard output or error is full, closed, or a pipe without a reader."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import IO

import pytest
from programs import BUILD, ROOT, Programs, wait_until

LIMIT_S = 60


@pytest.fixture(params=["full", "unread", "closed"])
def bad_stream(request: pytest.FixtureRequest) -> Iterator[IO[bytes] | None]:
    """A standard error that takes nothing; None: it is closed."""
    if request.param == "closed":
        yield None
        return
    if request.param == "full":
        stream = open("/dev/full", "wb")  # noqa: SIM115
    else:
        reads, writes = os.pipe()
        os.close(reads)
        stream = os.fdopen(writes, "wb")
    yield stream
    stream.close()


def breach(port: int) -> None:
    """Send bytes that no client sends, and wait until the server has closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        try:
            connection.sendall(b"\x17garbage" * 20)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except ConnectionError:
            pass


@pytest.mark.parametrize("name", ["kv_server", "echo_server"])
def test_a_server_lives_on_when_its_complaint_cannot_be_written(name: str, bad_stream: IO[bytes] | None) -> None:
    words = [BUILD / name, "--listen", "127.0.0.1", "--port", "0", "--insecure"]
    if bad_stream is None:
        words = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *words]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=bad_stream, text=True)
    try:
        assert server.stdout
        found = next(match for line in server.stdout if (match := re.search(r"127\.0\.0\.1:(\d+)", line)))
        # A second breach is answered like the first, so the server has outlived its complaint.
        for _ in range(3):
            breach(int(found[1]))
        server.send_signal(signal.SIGTERM)
        server.stdout.read()
        assert server.wait(LIMIT_S) == 0
    finally:
        server.kill()
        server.wait()
        if server.stdout:
            server.stdout.close()


COMPLAINTS = [
    (["kv_client", "--insecure", "127.0.0.1:1"], 1),
    (["verbena", "check", "no_such_file"], 1),
    (["verbena", "run", "--", "no_such_program"], 127),
    (["verbena", "run", "--no-such-option"], 2),
    (["rc_client", "--port", "1", "127.0.0.1"], 1),
    (["performance_test", "--insecure", "127.0.0.1:1"], 2),
]


@pytest.mark.parametrize(("words", "status"), COMPLAINTS, ids=lambda value: str(value))
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(words: list[str], status: int) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([BUILD / words[0], *words[1:]], stdout=subprocess.DEVNULL, stderr=full, timeout=LIMIT_S)
    assert ran.returncode == status


OUTPUTS = [
    ["verbena", "devices"],
    ["verbena", "devices", "--json"],
    ["verbena", "doctor"],
    ["verbena", "--help"],
    ["verbena", "check", "--json", str(ROOT / "bench" / "published" / "kv_set_get.csv")],
    ["kv_server", "--print-config"],
    ["echo_server", "--version"],
]


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_program_whose_output_is_lost_does_not_succeed(words: list[str], output: str) -> None:
    redirected = f'exec "$@" {">/dev/full" if output == "full" else ">&-"}'
    words = ["/bin/sh", "-c", redirected, "sh", str(BUILD / words[0]), *words[1:]]
    ran = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert ran.returncode == 1, ran.stderr
    assert "cannot write standard output: " in ran.stderr


def test_a_value_that_could_not_be_printed_is_a_failure(programs: Programs) -> None:
    server = programs.start("kv_server", "--listen", "127.0.0.1", "--port", 0)
    found = wait_until(lambda: re.search(r"127\.0\.0\.1:(\d+)", server.out), "kv_server listens", alive=server)
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [BUILD / "kv_client", f"127.0.0.1:{found[1]}"],
            input=b"SET key value\nGET key\n",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
        )
    assert ran.returncode == 1
    assert b"cannot write standard output: " in ran.stderr
