# SPDX-License-Identifier: Apache-2.0
"""Options and input of kv_server and kv_client that were taken for something else."""

import os
import socket
from pathlib import Path

import pytest
from programs import Programs, wait_until
from test_kv import HOST, client, lines, serve

LIMIT_S = 60


@pytest.mark.parametrize("option", ["--data", "--join", "--name", "--metrics", "--metrics-json"])
def test_an_empty_option_of_the_server_is_refused(programs: Programs, option: str) -> None:
    """`--data "$UNSET"` served without durability, and said nothing."""
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, option, "")
    assert ran.status == 2 and option in ran.err and "must not be empty" in ran.err, ran


@pytest.mark.parametrize("option", [("--name", "host"), ("--join-lease-s", "9")])
def test_an_option_of_a_member_needs_join(programs: Programs, option: tuple[str, str]) -> None:
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, *option)
    assert ran.status == 2 and f"{option[0]} requires --join" in ran.err, ran


def test_a_folder_is_no_empty_file_of_commands(programs: Programs, tmp_path: Path) -> None:
    _, where = serve(programs)
    ran = programs.run("kv_client", where, tmp_path)
    assert (ran.status, ran.err) == (1, f"kv_client: cannot read {tmp_path}: Is a directory\n"), ran
    folder = os.open(tmp_path, os.O_RDONLY)
    ran = programs.run("kv_client", where, stdin=folder)
    os.close(folder)
    assert (ran.status, ran.err) == (1, "kv_client: cannot read standard input: Is a directory\n"), ran


def test_a_set_is_sent_before_the_next_line_comes(programs: Programs, tmp_path: Path) -> None:
    _, where = serve(programs)
    fifo = tmp_path / "commands"
    os.mkfifo(fifo)
    other = lines(programs, "other.txt", "SET other 2")
    running = programs.start("kv_client", where, fifo, other)
    with fifo.open("w") as writer:
        writer.write("SET one 1\n")
        writer.flush()
        # The second file is executed too, while the first one has no line.
        wait_until(lambda: client(programs, where, "GET one", "GET other").out == "1\n2\n", "they are set")
        writer.write("GET one")  # a last line without an end
    ran = running.finish()
    assert (ran.status, ran.out) == (0, f"{fifo}:2: 1\n"), ran


def test_waiting_for_a_server_ends_though_no_answer_comes(programs: Programs) -> None:
    """A connect() to a host that drops packets takes minutes."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        callers = [socket.socket() for _ in range(3)]  # more than the kernel keeps
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        where = f"{HOST}:{listener.getsockname()[1]}"
        words = ("--transport", "tcp", "--wait", 1, "--timeout-ms", 500)
        ran = programs.run("kv_client", where, lines(programs, "commands.txt", "GET key"), *words, limit_s=LIMIT_S)
        for caller in callers:
            caller.close()
    assert ran.status == 1 and ran.seconds < 20, ran


def test_no_key_has_the_greatest_number_as_its_version(programs: Programs) -> None:
    """In a message it means any version: CAS and DEL changed whatever was there."""
    _, where = serve(programs)
    greatest = 2**64 - 1
    ran = client(programs, where, "SET key old", f"CAS key {greatest} new", f"DEL key {greatest}", "GET key")
    assert ran.status == 1 and ran.out == "old\n" and ":2: " in ran.err and ":3: " in ran.err, ran
