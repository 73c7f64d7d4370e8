# SPDX-License-Identifier: Apache-2.0
"""ud_server and ud_client: their output, the messages that arrive, and their error messages."""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import BUILD, Program, Programs, Ran, stop, wait_until

Q_KEY = "0x11111111"


@dataclass
class Server:
    program: Program
    qpn: str
    gid: str

    @property
    def address(self) -> tuple[str, str, str]:
        return self.gid, self.qpn, Q_KEY


def serve(programs: Programs, *options: object, receives: int = 74) -> Server:
    """Start a ud_server; its output must be its four lines and nothing else."""
    program = programs.start("ud_server", *options)
    wait_until(lambda: program.out.count("\n") >= 4, "ud_server says how to reach it", alive=program)
    said = re.fullmatch(
        rf"\[UD Server\] Ready to receive {receives} concurrent messages\.\n"
        r"  QPN  = ([1-9]\d*)\n  QKey = 0x11111111\n  GID  = ((?:[0-9a-f]{4}:){7}[0-9a-f]{4})\n",
        program.out,
    )
    assert said, program.out
    assert program.err == ""
    return Server(program, said[1], said[2])


def send(programs: Programs, server: Server, *options: object) -> Ran:
    return programs.run("ud_client", *server.address, *options)


def counts(ran: Ran) -> tuple[int, int, int]:
    """The messages that the receiver has, that were sent, and that were lost."""
    said = re.search(r"The receiver has (\d+) of (\d+): (\d+) lost, 0 duplicated, 0 reordered", ran.out)
    assert said, ran
    return int(said[1]), int(said[2]), int(said[3])


@pytest.mark.parametrize("colons", [True, False])
def test_one_message_arrives_and_the_client_prints_only_that_it_was_sent(programs: Programs, colons: bool) -> None:
    server = serve(programs)
    gid = server.gid if colons else server.gid.replace(":", "")
    ran = programs.run("ud_client", gid, server.qpn, Q_KEY)
    assert (ran.status, ran.out, ran.err) == (0, "[UD Client] Message sent.\n", ""), ran
    wait_until(
        lambda: "Message of 64 bytes from QPN" in server.program.out, "the message is there", alive=server.program
    )
    assert server.program.end().out.endswith("\n[UD Server] 1 plain messages.\n")


def test_a_message_to_nowhere_is_not_called_a_success(programs: Programs) -> None:
    ran = programs.run("ud_client", "::ffff:127.0.0.1", "13110", Q_KEY)
    assert ran.status == 1 and "no answer from that GID, QPN and Q_Key, so the messages are lost" in ran.err, ran
    assert programs.run("ud_client", "::ffff:127.0.0.1", "13110", Q_KEY, "--no-answer").status == 0


def test_every_byte_is_checked_if_both_ends_say_so(programs: Programs) -> None:
    server = serve(programs, "--recv-depth", 4096, "--verify", receives=4096)
    ran = send(programs, server, "--iters", 2000, "--window", 16, "--verify")
    assert ran.status == 0 and counts(ran) == (2000, 2000, 0), ran
    assert " 0 damaged, " in ran.out, ran
    # Messages without the pattern are damaged for it.
    ran = send(programs, server, "--iters", 2000, "--window", 16)
    assert ran.status == 1 and "2000 messages are not what was sent; both ends need --verify, or neither" in ran.err, (
        ran
    )
    plain = serve(programs, "--recv-depth", 4096, receives=4096)
    ran = send(programs, plain, "--iters", 2000, "--window", 16, "--verify")
    assert ran.status == 1 and "does ud_server run with --verify?" in ran.err, ran
    ran = send(programs, server, "--verify")
    assert ran.status == 2 and "--verify checks a measured run, so it needs --iters" in ran.err, ran


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_its_summary(programs: Programs, by: signal.Signals) -> None:
    ran = serve(programs).program.end(by)
    assert (ran.status, ran.err) == (0, ""), ran
    assert ran.out.splitlines()[4:] == ["[UD Server] 0 plain messages."]


def test_the_number_of_receives_is_an_option(programs: Programs) -> None:
    serve(programs, "--window", 4, receives=14)
    serve(programs, "--recv-depth", 1000, receives=1000)


def test_a_measured_run_is_accounted_for_at_both_ends(programs: Programs) -> None:
    server = serve(programs, "--recv-depth", 4096, receives=4096)
    for _ in range(2):
        ran = send(programs, server, "--iters", 4000, "--window", 16)
        assert ran.status == 0 and "[UD Client] 4000 messages sent.\n" in ran.out, ran
        assert counts(ran) == (4000, 4000, 0), "there is a receive for every message of the run"
        assert re.search(r"\d+\.\d{3} Mops, p50 \d+\.\d\d us, p99 \d+\.\d\d us", ran.out), ran
    ran = server.program.end()
    runs = re.findall(r"^\[UD Server\] Run (\d+): 4000 delivered, 0 lost of 4000", ran.out, re.MULTILINE)
    assert len(runs) == 2, f"each run is reported, and once{ran}"


def test_a_run_that_its_client_did_not_finish_is_reported_at_the_end(programs: Programs, burst: Path) -> None:
    server = serve(programs, "--device", "vb_lo")
    sender = Burst(programs, burst, server)
    sender.tell("send 5")
    assert sender.tell("ask") == "has 5"
    sender.tell("send 2")
    ran = server.program.end()
    assert ran.out.count("] Run ") == 1, ran


@pytest.mark.parametrize("size", ["16", "1K", "4K"])
def test_messages_of_16_bytes_to_the_mtu_of_the_loopback(programs: Programs, size: str) -> None:
    server = serve(programs, "--device", "vb_lo", "--msg", size)
    ran = send(programs, server, "--device", "vb_lo", "--msg", size, "--iters", 74, "--window", 64)
    assert ran.status == 0 and counts(ran) == (74, 74, 0), ran


class Burst:
    """A sender that sends when a test commands it (burst.c)."""

    def __init__(self, programs: Programs, program: Path, server: Server, size: int = 64) -> None:
        environment = os.environ | {"LD_PRELOAD": str(BUILD / "libverbena-nic.so"), "VERBENA_DEVICES": "vb_lo"}
        command = (program, server.gid, server.qpn, size)
        self.program = programs.start(*command, env=environment, stdin=subprocess.PIPE)
        self.answers = 0

    def tell(self, line: str) -> str:
        to = self.program.process.stdin
        assert to is not None
        to.write(line.encode() + b"\n")
        to.flush()
        self.answers += 1
        wait_until(lambda: self.program.out.count("\n") >= self.answers, f"'{line}' is done", alive=self.program)
        return self.program.out.splitlines()[-1]


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("burst") / "burst"
    source = Path(__file__).with_name("burst.c")
    command = ["gcc", "-Wall", "-Wextra", "-O1", source, "-o", program, "-libverbs"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return program


def test_74_messages_sent_before_the_server_polls_all_arrive(programs: Programs, burst: Path) -> None:
    server = serve(programs, "--device", "vb_lo")
    sender = Burst(programs, burst, server)
    assert sender.tell("send 1") == "sent 1"  # the two processes know each other from here on
    assert sender.tell("ask") == "has 1"
    for round_number in range(1, 4):
        stop(server.program.pid)
        assert sender.tell("send 74") == "sent 74", "a sender waits for nobody"
        os.kill(server.program.pid, signal.SIGCONT)
        assert sender.tell("ask") == f"has {1 + 74 * round_number}"


def test_messages_beyond_the_receives_may_be_lost_and_the_server_continues(programs: Programs, burst: Path) -> None:
    server = serve(programs, "--device", "vb_lo")
    sender = Burst(programs, burst, server)
    sender.tell("send 1")
    assert sender.tell("ask") == "has 1"
    stop(server.program.pid)
    assert sender.tell("send 500") == "sent 500"
    os.kill(server.program.pid, signal.SIGCONT)
    has = int(sender.tell("ask").split()[1])
    assert 1 + 74 <= has <= 501
    sender.tell("send 10")
    assert sender.tell("ask") == f"has {has + 10}"


def test_a_wrong_q_key_is_dropped_silently_and_the_client_notices(programs: Programs) -> None:
    server = serve(programs)
    ran = programs.run("ud_client", server.gid, server.qpn, "0x22222222")
    assert ran.out == "[UD Client] Message sent.\n", "a UD completion says that the message left"
    assert ran.status == 1 and "no answer from" in ran.err, ran
    ran = programs.run("ud_client", server.gid, server.qpn, "0x22222222", "--no-answer")
    assert (ran.status, ran.out, ran.err) == (0, "[UD Client] Message sent.\n", ""), ran
    ran = programs.run("ud_client", server.gid, server.qpn, "0x22222222", "--iters", 10)
    assert ran.status == 1 and "no answer from" in ran.err, ran
    assert send(programs, server, "--iters", 10).status == 0
    assert server.program.end().out.endswith("\n[UD Server] 0 plain messages.\n")


def test_an_unknown_queue_pair_is_reported(programs: Programs) -> None:
    server = serve(programs)
    ran = programs.run("ud_client", server.gid, int(server.qpn) ^ 1, Q_KEY, "--iters", 10)
    assert ran.status == 1 and "no answer from that GID, QPN and Q_Key" in ran.err, ran
    assert ran.seconds < 10


def test_messages_too_large_for_the_server_end_with_advice(programs: Programs) -> None:
    server = serve(programs)
    ran = send(programs, server, "--msg", 1024, "--iters", 100)
    assert ran.status == 1 and "its receives hold only 64 B; start it with ud_server --msg 1024" in ran.err, ran
    assert counts(send(programs, server, "--iters", 50)) == (50, 50, 0), "the server lives on"


@pytest.mark.parametrize("program", ["ud_server", "ud_client"])
def test_a_message_above_the_mtu_is_refused_before_anything_is_sent(programs: Programs, program: str) -> None:
    address = ["::ffff:127.0.0.1", "13110", Q_KEY] if program == "ud_client" else []
    ran = programs.run(program, *address, "--device", "vb_lo", "--msg", "8K")
    assert ran.status == 1 and "larger than the MTU of 4096 B" in ran.err, ran


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "server_gid"),
        (["fe80::1", "13110"], "qkey"),
        (["fe80::1", "13110", Q_KEY, "more"], "more"),
        (["fd93:16d3", "13110", Q_KEY], "'fd93:16d3' is not a GID"),
        (["fd9316d359b6012e7ec255fffebdd78", "13110", Q_KEY], "is not a GID"),
        (["fe80::1", "16777216", Q_KEY], "QPN"),
        (["fe80::1", "-1", Q_KEY], "-1"),
        (["fe80::1", "13110", "0x111111111"], "Q_Key"),
        (["fe80::1", "13110", Q_KEY, "--msg", "0"], "--msg"),
        (["fe80::1", "13110", Q_KEY, "--window", "0"], "--window"),
        (["fe80::1", "13110", Q_KEY, "--iters", "10", "--msg", "8"], "at least 16 bytes"),
    ],
)
def test_wrong_arguments_are_a_usage_error_of_the_client(programs: Programs, arguments: list[str], says: str) -> None:
    ran = programs.run("ud_client", *arguments)
    assert ran.status == 2 and ran.out == "", ran
    assert says in ran.err, ran


@pytest.mark.parametrize(
    "arguments", ["more", "--msg lots", "--msg 0", "--window 0", "--recv-depth 0", "--gid-index -1"]
)
def test_wrong_arguments_are_a_usage_error_of_the_server(programs: Programs, arguments: str) -> None:
    ran = programs.run("ud_server", *arguments.split())
    assert ran.status == 2 and ran.out == "" and ran.err, ran


@pytest.mark.parametrize("program", ["ud_server", "ud_client"])
def test_an_unknown_device_is_named(programs: Programs, program: str) -> None:
    address = ["fe80::1", "13110", Q_KEY] if program == "ud_client" else []
    ran = programs.run(program, *address, "--device", "mlx5_7")
    assert ran.status == 1 and "no device 'mlx5_7'" in ran.err, ran


def test_a_server_of_another_address_family_cannot_be_reached(programs: Programs) -> None:
    ran = programs.run("ud_client", "2001:db8::1", "13110", Q_KEY, "--device", "vb_lo", "--gid-index", 0)
    assert (ran.status, ran.out) == (1, "") and "no IPv6 GID on 'vb_lo', as the peer's 2001:0db8:" in ran.err, ran


def test_the_client_picks_the_device_of_the_servers_kind(programs: Programs) -> None:
    server = serve(programs, "--device", "vb_lo", "--msg", "4K")
    ran = send(programs, server, "--msg", "4K", "--iters", 20)
    assert ran.status == 0 and counts(ran) == (20, 20, 0), "only the loopback has an MTU of 4096 everywhere"
