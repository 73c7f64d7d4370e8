# SPDX-License-Identifier: Apache-2.0
"""The plain C programs of examples/rc_vs_ud on the software NIC.

They are built by the command line that their README publishes.
"""

import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from programs import ROOT, Program, Programs, wait_until

EXAMPLES = ROOT / "examples" / "rc_vs_ud"
Q_KEY = "0x11111111"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    for name in ("ud_server", "ud_client", "rc_server", "rc_client"):
        assert len((EXAMPLES / f"{name}.c").read_text().splitlines()) < 250
        line = f"gcc {name}.c -o {name} -lrdmacm -libverbs"
        assert f"    {line}\n" in (EXAMPLES / "README.md").read_text()
        assert f" *   {line}\n" in (EXAMPLES / f"{name}.c").read_text()
        shutil.copy(EXAMPLES / f"{name}.c", folder)
        done = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), done.stderr
    return folder


@pytest.fixture
def server(programs: Programs, built: Path) -> Program:
    program = programs.start("verbena", "run", "--", built / "ud_server")
    wait_until(lambda: program.out.count("\n") >= 4, "the server says how to reach it", alive=program)
    return program


def address(server: Program) -> tuple[str, str]:
    """Return the server's GID and QPN."""
    said = re.fullmatch(
        r"\[UD Server\] Ready to receive 74 concurrent messages\.\n"
        r"  QPN  = (\d+)\n  QKey = 0x11111111\n  GID  = ((?:[0-9a-f]{4}:){7}[0-9a-f]{4})\n",
        "".join(server.out.splitlines(keepends=True)[:4]),
    )
    assert said, server.out
    return said[2], said[1]


@pytest.mark.parametrize("colons", [True, False])
def test_a_message_arrives_at_the_example_server(
    programs: Programs, built: Path, server: Program, colons: bool
) -> None:
    gid, qpn = address(server)
    ran = programs.run("verbena", "run", "--", built / "ud_client", gid if colons else gid.replace(":", ""), qpn, Q_KEY)
    assert (ran.status, ran.out, ran.err) == (0, "[UD Client] Message sent.\n", ""), ran
    wait_until(lambda: "Received 21 bytes from QPN" in server.out, "the message is there", alive=server)
    ended = server.end()
    assert ended.status == 0 and ended.err == "", ended
    message, summary = ended.out.splitlines()[4:]
    assert message.endswith(": Hello from ud_client") and summary == "[UD Server] Received 1 messages, 21 bytes.", ended


def test_the_messages_of_a_hundred_clients_all_arrive(programs: Programs, built: Path, server: Program) -> None:
    gid, qpn = address(server)
    each = f"for i in $(seq 100); do {built}/ud_client {gid} {qpn} {Q_KEY} || exit 1; done"
    assert programs.run("verbena", "run", "--", "sh", "-c", each).status == 0
    wait_until(lambda: server.out.count("Hello from ud_client") == 100, "all messages are there", alive=server)
    assert server.end(signal.SIGINT).out.endswith("[UD Server] Received 100 messages, 2100 bytes.\n")


def test_the_projects_ud_programs_and_the_examples_exchange_messages(
    programs: Programs, built: Path, server: Program
) -> None:
    gid, qpn = address(server)
    assert programs.run("ud_client", gid, qpn, Q_KEY, "--no-answer").status == 0
    wait_until(lambda: "Hello from ud_client" in server.out, "the message is there", alive=server)
    ours = programs.start("ud_server")
    wait_until(lambda: ours.out.count("\n") >= 4, "ud_server says how to reach it", alive=ours)
    assert programs.run("verbena", "run", "--", built / "ud_client", *address(ours), Q_KEY).status == 0
    wait_until(lambda: "Message of 21 bytes" in ours.out, "the message is there", alive=ours)


def test_a_wrong_q_key_is_sent_and_never_received(programs: Programs, built: Path, server: Program) -> None:
    gid, qpn = address(server)
    assert programs.run("verbena", "run", "--", built / "ud_client", gid, qpn, "0x22222222").status == 0
    assert programs.run("verbena", "run", "--", built / "ud_client", gid, qpn, Q_KEY).status == 0
    wait_until(lambda: "Hello" in server.out, "the right one is there", alive=server)
    assert server.end().out.count("Hello") == 1


@pytest.mark.parametrize(
    "arguments", ["", "fe80::1 1", f"nonsense 1 {Q_KEY}", f"fe80::1 16777216 {Q_KEY}", "fe80::1 1 key"]
)
def test_wrong_arguments_end_with_the_usage(programs: Programs, built: Path, arguments: str) -> None:
    ran = programs.run(built / "ud_client", *arguments.split())
    assert ran.status == 2 and "usage: " in ran.err and "<server_gid> <server_qpn> <qkey>" in ran.err, ran
    assert programs.run(built / "ud_server", "more").status == 2


def listening(programs: Programs, built: Path) -> tuple[Program, int]:
    """Start an rc_server; return it and its port."""
    with socket.socket() as one:
        one.bind(("", 0))
        port = one.getsockname()[1]
    program = programs.start("verbena", "run", "--", built / "rc_server", port)
    wait_until(lambda: program.out.count("\n") >= 2, "the server listens", alive=program)
    assert program.out == f"Starting RDMA Server on port {port} (Type: RC)...\nRDMA Server listening...\n"
    return program, port


TALK = (
    "Attempting to connect...\nRDMA_CM_EVENT_ESTABLISHED! Connection successful.\n"
    "[RC Client] Message sent and acknowledged.\n"
    "[RC Client] 64 bytes written, read back and compared: equal.\n"
)


def test_connected_clients_one_after_the_other(programs: Programs, built: Path) -> None:
    server, port = listening(programs, built)
    for _ in range(10):
        ran = programs.run("verbena", "run", "--", built / "rc_client", "127.0.0.1", port)
        assert (ran.status, ran.out, ran.err) == (0, TALK, ""), ran
    wait_until(lambda: server.out.count("A client has left.") == 10, "all have left", alive=server)
    ended = server.end()
    assert ended.status == 0 and ended.err == "", ended
    assert ended.out.count("[RC Server] Received 64 bytes: Hello from rc_client\n") == 10, ended
    assert ended.out.endswith("[RC Server] Received 10 messages of 10 clients.\n"), ended


def test_the_projects_rc_programs_and_the_examples_refuse_each_other_with_a_message(
    programs: Programs, built: Path
) -> None:
    server, port = listening(programs, built)
    ran = programs.run("rc_client", "127.0.0.1", "--port", port)
    assert ran.status == 1 and "rc_client: " in ran.err and "private data" in ran.err, ran
    server.end()
    ours = programs.start("rc_server", "--port", port)
    wait_until(lambda: "listening" in ours.out, "rc_server listens", alive=ours)
    ran = programs.run("verbena", "run", "--", built / "rc_client", "127.0.0.1", port)
    assert ran.status == 1 and "another program" in ran.err, ran
    rejected = "rejected: the private data comes from another program"
    wait_until(lambda: rejected in ours.out, "the server says so", alive=ours)


def test_connected_clients_at_the_same_time(programs: Programs, built: Path) -> None:
    server, port = listening(programs, built)
    clients = [programs.start("verbena", "run", "--", built / "rc_client", "127.0.0.1", port) for _ in range(6)]
    for client in clients:
        ran = client.finish()
        assert (ran.status, ran.out, ran.err) == (0, TALK, ""), ran
    wait_until(lambda: server.out.count("A client has left.") == 6, "all have left", alive=server)
    assert server.end(signal.SIGINT).out.endswith("[RC Server] Received 6 messages of 6 clients.\n")


def test_a_port_without_a_listener_and_a_port_in_use_are_reported(programs: Programs, built: Path) -> None:
    server, port = listening(programs, built)
    ran = programs.run("verbena", "run", "--", built / "rc_server", port)
    assert ran.status == 1 and "is the port in use?" in ran.err, ran
    server.end()
    ran = programs.run("verbena", "run", "--", built / "rc_client", "127.0.0.1", port)
    assert (ran.status, ran.out) == (1, "Attempting to connect...\n") and "no server listens at that port" in ran.err, (
        ran
    )


@pytest.mark.parametrize("arguments", ["", "localhost", "127.0.0.1 port", "127.0.0.1 1 more"])
def test_wrong_arguments_of_the_connected_pair_end_with_the_usage(
    programs: Programs, built: Path, arguments: str
) -> None:
    ran = programs.run(built / "rc_client", *arguments.split())
    assert ran.status == 2 and "usage: " in ran.err and "<server_ip> [port]" in ran.err, ran
    for wrong in ("0", "65536", "port", ""):
        assert programs.run(built / "rc_server", wrong).status == 2


def test_without_the_nic_they_print_how_to_get_one(programs: Programs, built: Path) -> None:
    if any(Path("/sys/class/infiniband").glob("*")):
        pytest.skip("this machine has an RDMA device of its own")
    for command in (
        (built / "ud_server",),
        (built / "ud_client", "fe80::1", "1", Q_KEY),
        (built / "rc_server",),
        (built / "rc_client", "127.0.0.1"),
    ):
        ran = programs.run(*command)
        assert ran.status == 1 and "verbena run" in ran.err, ran
