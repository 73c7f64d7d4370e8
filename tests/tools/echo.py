# SPDX-License-Identifier: Apache-2.0
"""Runs echo_server, and judges what performance_test prints."""

import re
import socket

from programs import Program, Programs, Ran, wait_until

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def serve(programs: Programs, *options: object, host: str = HOST, **started: object) -> tuple[Program, str]:
    port = free_port()
    words = ("--listen", host, "--port", port, *options)
    program = programs.start("echo_server", *words, **started)  # type: ignore[arg-type]
    wait_until(lambda: "listening at" in program.out, "echo_server listens", alive=program)
    return program, f"{HOST if host == '0.0.0.0' else host}:{port}"


def check_good(ran: Ran, clients: int) -> None:
    assert ran.status == 0, ran
    assert re.search(rf"^ +{clients} +100\.00%", ran.out, re.MULTILINE), ran
    assert "failures: 0 connect, 0 lost, 0 wrong echo" in ran.out, ran
