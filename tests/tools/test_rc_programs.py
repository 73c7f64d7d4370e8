# SPDX-License-Identifier: Apache-2.0
"""rc_server and rc_client over rdma_cm: their output, the delivered messages, and their error
messages.
"""

import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import ADDRESSES, NamespacePair, Program, Programs, Ran, stop, wait_until

HOST = "127.0.0.1"
CONNECTED = "Attempting to connect...\nRDMA_CM_EVENT_ESTABLISHED! Connection successful.\n"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


@dataclass
class Server:
    program: Program
    port: int

    @property
    def address(self) -> tuple[object, ...]:
        return HOST, "--port", self.port

    def says(self, what: str, times: int = 1) -> None:
        wait_until(
            lambda: len(re.findall(what, self.program.out)) >= times, f"the server says '{what}'", alive=self.program
        )


def serve(programs: Programs, *options: object) -> Server:
    """Start an rc_server and wait until it listens."""
    port = free_port()
    program = programs.start("rc_server", "--port", port, *options)
    wait_until(lambda: program.out.count("\n") >= 2, "rc_server listens", alive=program)
    assert program.out == f"Starting RDMA Server on port {port} (Type: RC)...\nRDMA Server listening...\n"
    assert program.err == ""
    return Server(program, port)


def transfer(programs: Programs, server: Server, *options: object) -> Ran:
    return programs.run("rc_client", *server.address, *options)


def endless(programs: Programs, server: Server, *options: object) -> Program:
    """Start a client whose run does not end by itself, and wait until it is connected."""
    program = programs.start("rc_client", *server.address, "--iters", 1 << 40, *options)
    wait_until(lambda: "ESTABLISHED" in program.out, "the client is connected", alive=program)
    return program


def check_good(ran: Ran, messages: int, op: str = "send", msg: int = 64, window: int = 64) -> None:
    assert (ran.status, ran.err) == (0, ""), ran
    assert ran.out.startswith(
        f"{CONNECTED}[RC Client] {messages} messages of {msg} B complete ({op}, window {window}).\n"
    ), ran
    whose = "Read correctly" if op == "read" else "The receiver has"
    figures = (
        rf"\[RC Client\] {whose} {messages} of {messages}: 0 lost, 0 duplicated, 0 reordered, 0 damaged, "
        r"(?:(\S+) Mops, \S+ GiB/s|no rate \(too few messages to measure one\))"
    )
    said = re.search(figures, ran.out)
    assert said and (said[1] or messages < 10_000), ran
    assert said[1] is None or float(said[1]) > 0, ran
    if messages >= 61:
        assert re.search(r", p50 \d+\.\d\d us, p99 \d+\.\d\d us \(to the completion\)\n$", ran.out), ran


@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_each_operation_is_verified_to_the_last_message(programs: Programs, op: str) -> None:
    server = serve(programs)
    check_good(transfer(programs, server, "--op", op), 10_000, op)
    check_good(transfer(programs, server, "--op", op, "--msg", "4K", "--window", 4, "--iters", 500), 500, op, 4096, 4)
    server.says(
        "until it disconnected"
        if op == "read"
        else f"500 delivered by {op}, 0 lost of 500, 0 duplicated, 0 reordered, 0 damaged, "
    )
    ran = server.program.end()
    assert (ran.status, ran.err, ran.out.count("] Client ")) == (0, "", 2), ran


@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_every_byte_can_be_checked(programs: Programs, op: str) -> None:
    server = serve(programs)
    for msg in (8, 4096) if op != "send" else (1, 15, 4096):
        ran = transfer(programs, server, "--verify", "--op", op, "--msg", msg, "--iters", 1000)
        assert ran.status == 0 and "1000 of 1000: 0 lost" in ran.out, ran
        assert "0 damaged (every byte checked)" in ran.out, ran


@pytest.mark.parametrize(("msg", "window", "iters"), [(1, 1, 100), (16, 4096, 20_000), (1 << 20, 64, 70), (64, 64, 1)])
def test_the_smallest_and_the_largest_options_work(programs: Programs, msg: int, window: int, iters: int) -> None:
    ran = transfer(programs, serve(programs), "--msg", msg, "--window", window, "--iters", iters)
    assert ran.status == 0 and f"The receiver has {iters} of {iters}: 0 lost" in ran.out, ran


def test_a_rate_that_cannot_be_true_is_not_printed(programs: Programs) -> None:
    """A run of one message printed 0.000 Mops, and a run of one window more than a NIC can do."""
    server = serve(programs)
    for messages in (1, 64, 127):
        ran = transfer(programs, server, "--iters", messages)
        assert ran.status == 0 and "no rate (too few messages to measure one)" in ran.out and "Mops" not in ran.out


def test_a_port_behind_the_host_is_answered_with_the_option(programs: Programs) -> None:
    ran = programs.run("rc_client", "127.0.0.1:4000")
    assert ran.status == 2, ran
    assert ran.err == "rc_client: 127.0.0.1:4000: write the port as an option, 127.0.0.1 --port 4000\n", ran


@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_between_two_hosts(programs: Programs, two_hosts: NamespacePair, op: str) -> None:
    server = programs.start("rc_server", "--once", within=lambda command: two_hosts.inside(0, command))
    wait_until(lambda: "listening" in server.out, "rc_server listens", alive=server)
    sent = two_hosts.udp_datagrams_sent(1)
    ran = programs.run(
        "rc_client", ADDRESSES[0], "--iters", 2000, "--op", op, within=lambda command: two_hosts.inside(1, command)
    )
    check_good(ran, 2000, op)
    assert server.finish().status == 0
    assert two_hosts.udp_datagrams_sent(1) > sent


def test_a_client_killed_on_another_host_is_noticed_within_20_seconds(
    programs: Programs, two_hosts: NamespacePair
) -> None:
    server = programs.start("rc_server", "--once", within=lambda command: two_hosts.inside(0, command))
    wait_until(lambda: "listening" in server.out, "rc_server listens", alive=server)
    command = ("rc_client", ADDRESSES[0], "--iters", 1 << 40)
    client = programs.start(*command, within=lambda command: two_hosts.inside(1, command))
    wait_until(lambda: "ESTABLISHED" in client.out, "the client is connected", alive=client)
    client.kill()
    ran = server.finish(20)
    assert ran.status == 1 and re.search(r"; \d+ messages were delivered before\n$", ran.out), ran


def test_a_server_serves_ten_clients_in_turn(programs: Programs) -> None:
    server = serve(programs)
    for _ in range(10):
        check_good(transfer(programs, server, "--iters", 200), 200)
    server.says("200 delivered", 10)


def test_several_clients_at_once_each_get_their_own_account(programs: Programs) -> None:
    server = serve(programs)
    runs = [(1000 + i, ("send", "write", "read")[i % 3]) for i in range(6)]
    clients = [programs.start("rc_client", *server.address, "--iters", iters, "--op", op) for iters, op in runs]
    for client, (iters, op) in zip(clients, runs, strict=True):
        check_good(client.finish(), iters, op)
    for iters, op in runs:
        if op != "read":
            server.says(f"{iters} delivered by {op}, 0 lost of {iters}")
    server.says("until it disconnected", 2)


def test_a_short_run_is_served_during_a_long_one(programs: Programs) -> None:
    server = serve(programs)
    long = endless(programs, server)
    check_good(transfer(programs, server, "--iters", 500), 500)
    assert long.running
    long.kill()
    server.says("the client disconnected; [1-9][0-9]* messages were delivered before")


@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_a_killed_client_leaves_the_server_serving(programs: Programs, op: str) -> None:
    server = serve(programs)
    client = endless(programs, server, "--op", op)
    client.kill()
    server.says("until it disconnected" if op == "read" else "messages were delivered before")
    check_good(transfer(programs, server, "--iters", 500), 500)
    ran = server.program.end()
    assert (ran.status, ran.err) == (0, ""), ran


def test_a_stopped_client_is_waited_for(programs: Programs) -> None:
    server = serve(programs)
    client = programs.start("rc_client", *server.address, "--iters", 200_000)
    wait_until(lambda: "ESTABLISHED" in client.out, "the client is connected", alive=client)
    stop(client.pid)
    check_good(transfer(programs, server, "--iters", 500), 500)
    os.kill(client.pid, signal.SIGCONT)
    check_good(client.finish(), 200_000)


def test_a_client_reports_that_its_server_was_killed(programs: Programs) -> None:
    server = serve(programs)
    client = endless(programs, server)
    server.program.kill()
    ran = client.finish()
    assert ran.status == 1 and re.search(r"^rc_client: .* after \d+ of \d+ messages$", ran.err), ran


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server(programs: Programs, by: signal.Signals) -> None:
    started = time.monotonic()
    ran = serve(programs).program.end(by)
    assert (ran.status, ran.err, ran.out.count("\n")) == (0, "", 2), ran
    assert time.monotonic() - started < 10


def test_a_signal_ends_a_busy_server_and_its_client_reports_it(programs: Programs) -> None:
    server = serve(programs)
    client = endless(programs, server)
    ran = server.program.end()
    assert ran.status == 0 and re.search(r"the server was stopped; \d+ messages were delivered before\n$", ran.out), ran
    ran = client.finish()
    assert ran.status == 1 and re.search(r"after \d+ of \d+ messages", ran.err), ran


@pytest.mark.parametrize("op", ["send", "read"])
def test_once_ends_after_one_client(programs: Programs, op: str) -> None:
    server = serve(programs, "--once")
    check_good(transfer(programs, server, "--iters", 500, "--op", op), 500, op)
    ran = server.program.finish()
    assert (ran.status, ran.err, ran.out.count("] Client ")) == (0, "", 1), ran
    ran = transfer(programs, server)
    assert ran.status == 1 and "no server listens" in ran.err, ran


def test_a_port_in_use_is_reported_and_free_again_after_its_server(programs: Programs) -> None:
    server = serve(programs)
    ran = programs.run("rc_server", "--port", server.port)
    assert ran.status == 1 and f"port {server.port} is in use" in ran.err, ran
    assert "listening" not in ran.out
    check_good(transfer(programs, server, "--iters", 100), 100)
    server.program.end()
    again = programs.start("rc_server", "--port", server.port)
    wait_until(lambda: "listening" in again.out, "the port is free", alive=again)


def test_a_missing_listener_is_reported_before_any_time_limit_ends(programs: Programs) -> None:
    port = free_port()
    ran = programs.run("rc_client", HOST, "--port", port)
    assert (ran.status, ran.out) == (1, "Attempting to connect...\n"), ran
    assert f"no server listens at {HOST}:{port}: start the server there first" in ran.err, ran
    assert ran.seconds < 5  # a set-up may take 10 s


@pytest.mark.parametrize(("server", "says"), [("no-such.invalid", "no-such.invalid: "), ("1.2.3.4.5", "1.2.3.4.5: ")])
def test_an_unknown_host_name_is_a_failure(programs: Programs, server: str, says: str) -> None:
    ran = programs.run("rc_client", server)
    assert ran.status == 1 and says in ran.err, ran


def test_the_ipv6_loopback_is_served(programs: Programs) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    server = serve(programs)
    ran = programs.run("rc_client", "::1", "--port", server.port, "--iters", 500)
    check_good(ran, 500)
    server.says(r"Client \[::1\]:\d+: 500 delivered")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "server_ip"),
        ([HOST, "more"], "more"),
        ([HOST, "--port", "0"], "--port"),
        ([HOST, "--port", "65536"], "--port"),
        ([HOST, "--msg", "0"], "--msg"),
        ([HOST, "--msg", "2M"], "--msg"),
        ([HOST, "--msg", "lots"], "--msg"),
        ([HOST, "--window", "0"], "--window"),
        ([HOST, "--window", "8192"], "--window"),
        ([HOST, "--iters", "0"], "--iters"),
        ([HOST, "--op", "poke"], "--op"),
        ([HOST, "--op", "read", "--msg", "4"], "no room for the stamp"),
        ([HOST, "--msg", "1M", "--window", "4096"], "at most 64 MiB in flight"),
    ],
)
def test_wrong_arguments_are_a_usage_error_of_the_client(programs: Programs, arguments: list[str], says: str) -> None:
    ran = programs.run("rc_client", *arguments)
    assert ran.status == 2 and ran.out == "", ran
    assert says in ran.err, ran


@pytest.mark.parametrize("arguments", ["more", "--port 0", "--port lots", "--port 65536", "--twice"])
def test_wrong_arguments_are_a_usage_error_of_the_server(programs: Programs, arguments: str) -> None:
    ran = programs.run("rc_server", *arguments.split())
    assert ran.status == 2 and ran.out == "" and ran.err, ran
