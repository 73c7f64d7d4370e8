# SPDX-License-Identifier: Apache-2.0
"""echo_server and performance_test: many clients, and the error messages of both."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from echo import HOST, check_good, free_port, serve
from io_uring import FORBIDDEN, needs_io_uring
from programs import ADDRESSES, ROOT, NamespacePair, Program, Programs, Ran, wait_until
from refusal import Refuse


@pytest.fixture(params=["tls-psn", "rdmacm"])
def clients_by(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """performance_test with each way to connect."""
    return "performance_test", "--connect", request.param


def test_ten_clients_with_a_server_of_their_own(programs: Programs) -> None:
    ran = programs.run("performance_test", "-c", 10, "-n", 20, "-v")
    check_good(ran, 10)
    assert len(re.findall(r"^client +\d+: good, connected in [\d.]+ ms, 20 echoes", ran.out, re.MULTILINE)) == 10, ran
    assert "server: 10 clients at once, 200 echoed, 0 lost, 0 refused" in ran.out, ran


def test_a_thousand_clients_are_connected_at_once(programs: Programs, clients_by: tuple[str, ...]) -> None:
    ran = programs.run(*clients_by, "-c", 1000, "-n", 2, "-t", 1, limit_s=60)
    check_good(ran, 1000)
    assert "server: 1000 clients at once, 2000 echoed" in ran.out, ran


def test_a_thousand_clients_that_all_arrive_at_once_all_succeed(programs: Programs) -> None:
    """Each client has the usual 10 s for its handshake, counted from its own start."""
    server, where = serve(programs)
    ran = programs.run("performance_test", "-c", 1000, "--handshakes", 0, "-d", 0, "-n", 1, "-s", where, limit_s=60)
    check_good(ran, 1000)
    ended = server.end()
    assert "1000 clients were connected at a time, 1000 messages echoed, 0 lost, 0 handshakes failed" in ended.out, (
        ended
    )


def test_both_ends_print_their_device_and_transport_once(programs: Programs) -> None:
    server, where = serve(programs)
    over = r"rc over vb_lo \([0-9a-f:.]+, MTU \d+\)"
    assert (
        len(re.findall(rf"^echo_server: listening at {where}, {over}, engine epoll", server.out, re.MULTILINE)) == 1
    ), server.out
    ran = programs.run("performance_test", "-c", 2, "-n", 1, "-s", where, "--json", "p.json")
    assert len(re.findall(rf"^path: {over}, connected by tls-psn$", ran.out, re.MULTILINE)) == 1, ran
    table = json.loads((programs.folder / "p.json").read_text())
    environment = table["environment"]
    assert (
        (environment["device"], table["rows"][0]["transport"]) == ("vb_lo", "rdma")
        and environment["gid"]
        and environment["mtu"]
    )
    ran = programs.run("performance_test", "-c", 2, "-n", 1, "--transport", "tcp")
    assert re.search(r"^path: tcp\+tls, connected by tls-psn$", ran.out, re.MULTILINE), ran


@pytest.mark.parametrize("size", [1, 8, 1024, 100_000])
def test_messages_of_1_to_100000_bytes(programs: Programs, clients_by: tuple[str, ...], size: int) -> None:
    check_good(programs.run(*clients_by, "-c", 3, "-n", 20, "-t", 0, "-m", size), 3)


@pytest.mark.parametrize("carrier", [("rdma",), ("tcp", "-m", 20_000)])
def test_a_window_larger_than_the_buffers_does_not_deadlock(programs: Programs, carrier: tuple[object, ...]) -> None:
    check_good(
        programs.run("performance_test", "-c", 2, "-n", 1500, "-t", 0, "--window", 1024, "--transport", *carrier), 2
    )


@pytest.mark.parametrize(
    "words",
    [["-c", "0"], ["-c", "-1"], ["-c", "ten"], ["-c", "100001"], ["-n", "0"], ["-m", "0"], ["-t", "-1"], ["--no-such"]],
)
def test_options_out_of_range_are_usage_errors(programs: Programs, words: list[str]) -> None:
    assert programs.run("performance_test", *words).status == 2


def test_without_a_server_no_client_succeeds(programs: Programs, clients_by: tuple[str, ...]) -> None:
    ran = programs.run(*clients_by, "-c", 4, "-n", 1, "-s", f"{HOST}:{free_port()}")
    assert ran.status == 1, ran
    assert re.search(r"^ +4 +0\.00%", ran.out, re.MULTILINE), ran
    assert "failures: 4 connect" in ran.out and "no server listens" in ran.err, ran


def test_a_server_serves_one_run_after_the_other(programs: Programs, clients_by: tuple[str, ...]) -> None:
    server, where = serve(programs)
    for _ in range(3):
        check_good(programs.run(*clients_by, "-c", 20, "-n", 5, "-t", 0, "-s", where), 20)
    ran = server.end()
    assert ran.status == 0, ran
    assert "at most 20 clients were connected at a time, 300 messages echoed, 0 lost, 0 handshakes failed" in ran.out, (
        ran
    )


def test_a_server_ends_within_two_seconds_of_sigterm(programs: Programs) -> None:
    server, where = serve(programs)
    clients = busy(programs, 50, where)
    begun = time.monotonic()
    ran = server.end()
    assert ran.status == 0 and time.monotonic() - begun < 2, ran
    ended = clients.finish()
    assert ended.status == 1 and "50 lost" in ended.out, ended


def busy(programs: Programs, clients: int, where: str, by: tuple[str, ...] = ("performance_test",)) -> Program:
    """Start clients whose run does not end by itself, and wait until all are connected."""
    program = programs.start(*by, "-c", clients, "-n", 1_000_000, "-t", 1, "-s", where)
    wait_until(
        lambda: f"{clients} of {clients} clients are connected" in program.out,
        "the clients are connected",
        alive=program,
    )
    return program


def test_killed_clients_are_lost_and_new_ones_are_served(programs: Programs, clients_by: tuple[str, ...]) -> None:
    server, where = serve(programs)
    clients = busy(programs, 5, where, clients_by)
    os.killpg(clients.pid, signal.SIGKILL)
    clients.finish()
    check_good(programs.run(*clients_by, "-c", 5, "-n", 5, "-s", where), 5)
    wait_until(lambda: server.err.count("connection is lost") == 5, "the server notices", alive=server)


def test_clients_of_a_killed_server_are_lost(programs: Programs, clients_by: tuple[str, ...]) -> None:
    server, where = serve(programs)
    clients = busy(programs, 5, where, clients_by)
    server.process.kill()
    ran = clients.finish()
    assert ran.status == 1 and "5 lost" in ran.out, ran


def test_another_user_is_not_trusted(programs: Programs, clients_by: tuple[str, ...], tmp_path: Path) -> None:
    server, where = serve(programs)
    ran = programs.run(
        *clients_by, "-c", 2, "-n", 1, "-s", where, env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "other")}
    )
    assert ran.status == 1 and "failures: 2 connect" in ran.out, ran
    check_good(programs.run(*clients_by, "-c", 2, "-n", 1, "-s", where), 2)
    assert server.running


def test_a_plain_text_end_and_a_protected_end_do_not_connect(programs: Programs, clients_by: tuple[str, ...]) -> None:
    _, where = serve(programs)
    ran = programs.run(*clients_by, "-c", 1, "-n", 1, "-s", where, "--insecure")
    assert ran.status == 1, ran
    _, clear = serve(programs, "--insecure")
    assert programs.run(*clients_by, "-c", 1, "-n", 1, "-s", clear).status == 1
    check_good(programs.run(*clients_by, "-c", 2, "-n", 3, "-s", clear, "--insecure"), 2)


# The server drops a handshake that makes no progress after 10 s; a client must not wait for that.
CONNECT_P99_MAX_MS = 5000


def connect_p99_ms(ran: Ran) -> float:
    found = re.search(r"^connect ms p50 [\d.]+ p99 ([\d.]+)", ran.out, re.MULTILINE)
    assert found, ran
    return float(found[1])


def test_a_hundred_silent_callers_do_not_hold_clients_up_until_they_are_dropped(programs: Programs) -> None:
    """The callers connect by TCP and send nothing."""
    _, where = serve(programs)
    host, port = where.split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(100)]
    ran = programs.run("performance_test", "-c", 10, "-n", 5, "-s", where)
    check_good(ran, 10)
    assert connect_p99_ms(ran) < CONNECT_P99_MAX_MS, ran
    for each in silent:
        each.close()


def test_a_hundred_stalled_handshakes_do_not_hold_clients_up_until_they_are_dropped(programs: Programs) -> None:
    """Each stalled caller has sent one byte of a TLS record."""
    ran = programs.run("performance_test", "-c", 10, "-n", 5, "-t", 0, "--stalled", 100)
    check_good(ran, 10)
    assert connect_p99_ms(ran) < CONNECT_P99_MAX_MS, ran


@pytest.fixture(params=["tls-psn", "rdmacm", "tcp"])
def clients_over(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """performance_test with each way to connect and over each transport."""
    return ("performance_test", *(("--transport", "tcp") if request.param == "tcp" else ("--connect", request.param)))


def test_clients_connect_no_faster_than_the_accept_rate(programs: Programs, clients_over: tuple[str, ...]) -> None:
    _, where = serve(programs, "--accept-rate", 100)
    ran = programs.run(*clients_over, "-c", 40, "-n", 1, "-t", 0, "-s", where)
    check_good(ran, 40)
    took = re.search(r"^40 connected in ([\d.]+) s", ran.out, re.MULTILINE)
    assert took and float(took[1]) >= 39 / 100, ran  # the first client need not wait


def test_two_servers_share_the_clients(programs: Programs) -> None:
    (one, first), (other, second) = serve(programs), serve(programs)
    check_good(programs.run("performance_test", "-c", 21, "-n", 5, "-t", 0, "-s", f"{first},{second}"), 21)
    assert "at most 11 clients were connected at a time, 55 messages echoed" in one.end().out
    assert "at most 10 clients were connected at a time, 50 messages echoed" in other.end().out


def test_the_threads_engine_has_a_thread_for_each_client(programs: Programs) -> None:
    ran = programs.run("performance_test", "-c", 30, "-n", 20, "-t", 0, "--engine", "threads", "--hold", 0.5)
    check_good(ran, 30)
    row = re.search(r"^ +30 +100\.00%.* (\d+)$", ran.out, re.MULTILINE)
    assert row and 31 <= int(row[1]) <= 36, ran
    assert "clients are connected and idle" in ran.out, ran
    too_many = programs.run("performance_test", "-c", 2001, "--engine", "threads")
    assert too_many.status == 1 and "at most 2000" in too_many.err, too_many
    assert programs.run("echo_server", "--engine", "threads").status == 2


def test_a_server_with_the_threads_engine_serves_and_ends(programs: Programs) -> None:
    server, where = serve(programs, "--engine", "threads", "--max-clients", 10)
    for _ in range(2):
        check_good(programs.run("performance_test", "-c", 10, "-n", 5, "-t", 0, "-s", where), 10)
    ran = server.end()
    assert ran.status == 0 and "at most 10 clients were connected at a time, 100 messages echoed, 0 lost" in ran.out, (
        ran
    )


@pytest.mark.parametrize("connect", ["tls-psn", "rdmacm"])
def test_the_io_uring_engine_serves_rdma_and_tcp_clients(programs: Programs, connect: str) -> None:
    needs_io_uring()
    server, where = serve(programs, "--engine", "uring")
    check_good(programs.run("performance_test", "-c", 100, "-n", 5, "-t", 1, "--connect", connect, "-s", where), 100)
    check_good(
        programs.run("performance_test", "-c", 20, "-n", 5, "-t", 0, "--transport", "tcp", "-m", 200_000, "-s", where),
        20,
    )
    ran = server.end()
    assert ran.status == 0 and "engine uring" in ran.out and not ran.err, ran
    assert "at most 100 clients were connected at a time, 600 messages echoed, 0 lost" in ran.out, ran


@pytest.mark.parametrize("engine", ["epoll", "uring"])
def test_a_server_has_the_same_few_threads_for_2_and_for_400_clients(programs: Programs, engine: str) -> None:
    if engine == "uring":
        needs_io_uring()
    threads = set()
    for clients in (2, 400):
        ran = programs.run("performance_test", "-c", clients, "-n", 2, "-t", 0, "--engine", engine, "--hold", 0.3)
        check_good(ran, clients)
        row = re.search(rf"^ +{clients} +100\.00%.* (\d+)$", ran.out, re.MULTILINE)
        assert row and f"server: engine {engine}" in ran.out, ran
        threads.add(int(row[1]))
    assert len(threads) == 1 and max(threads) <= (os.cpu_count() or 1) + 6, threads


def test_every_thread_of_a_server_has_a_name_that_the_docs_explain(programs: Programs) -> None:
    server, where = serve(programs, "--metrics", 0, "--metrics-json", "m.json", "--engine", "uring")
    clients = busy(programs, 20, where)
    names = [file.read_text().strip() for file in Path(f"/proc/{server.pid}/task").glob("*/comm")]
    assert clients.running
    explained = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "benchmarking.md").read_text(), re.MULTILINE)
    assert set(names) <= set(explained) and names.count("echo_server") == 1, (names, explained)


def test_where_io_uring_is_forbidden_epoll_serves_and_this_is_reported_once(programs: Programs, refuse: Refuse) -> None:
    server, where = serve(programs, "--engine", "uring", within=refuse(FORBIDDEN))
    check_good(programs.run("performance_test", "-c", 2, "-n", 2, "-t", 0, "-s", where), 2)
    ran = server.end()
    assert (
        ran.err.count("the kernel refuses io_uring, so epoll is used instead (io_uring_setup: Operation not permitted)")
        == 1
    ), ran
    assert "engine epoll" in ran.out
    own = programs.run(
        "performance_test",
        "-c",
        2,
        "-n",
        2,
        "-t",
        0,
        "--engine",
        "uring",
        "--json",
        "p.json",
        within=refuse(FORBIDDEN),
    )
    check_good(own, 2)
    assert own.err.count("epoll is used instead") == 1 and "server: engine epoll" in own.out, own
    assert json.loads((programs.folder / "p.json").read_text())["rows"][0]["engine"] == "epoll"
    bench = (
        "verbena",
        "bench",
        "scale",
        "--clients",
        2,
        "--engine",
        "uring",
        "--messages",
        2,
        "--reps",
        1,
        "--json",
        "-",
        "--quiet",
    )
    ran = programs.run(*bench, within=refuse(FORBIDDEN))
    row = json.loads(ran.out)["rows"][0]
    assert ran.status == 0 and row["validity"] == "n/a" and "the kernel refuses io_uring" in row["reason"], ran


@pytest.mark.parametrize("mode", ["srq", "per_connection"])
def test_both_receive_modes_serve_clients_with_the_given_options(programs: Programs, mode: str) -> None:
    options = ("--recv-mode", mode, "--receive-depth", 16, "--unit-bytes", "2K", "--max-clients", 200)
    server, where = serve(programs, *options)
    check_good(programs.run("performance_test", "-c", 200, "-n", 5, "-t", 1, "-m", 3000, "-s", where), 200)
    ran = server.end()
    assert ran.status == 0 and "0 lost" in ran.out, ran
    shown = programs.run("echo_server", *options, "--print-config")
    numbers = dict(line.split(" = ") for line in shown.out.splitlines())
    assert numbers["recv_mode"] == mode and numbers["receive_depth"] == "16" and numbers["unit_bytes"] == "2048", shown


def numbers_of(programs: Programs, *options: str) -> dict[str, str]:
    shown = programs.run("echo_server", *options, "--print-config")
    assert shown.status == 0, shown
    return dict(line.split(" = ") for line in shown.out.splitlines())


def test_every_number_of_print_config_is_an_option_of_that_name(programs: Programs) -> None:
    usual = numbers_of(programs)
    words = {
        "engine": "uring",
        "recv_mode": "per_connection",
        "watermark": "close",
        "coalesce": "no",
        "fragments_on_heap": "yes",
    }
    other = {name: words.get(name) or str(int(number) + 1) for name, number in usual.items()} | {
        "shared_queue_pairs_max": "7"
    }
    assert {
        "handshake_timeout_ms",
        "handshakes_max",
        "units_low",
        "part_bytes",
        "tcp_buffer_max",
        "logical_window",
    } < set(usual)
    for name, value in other.items():
        assert numbers_of(programs, f"--{name.replace('_', '-')}={value}")[name] == value != usual[name], name


@pytest.mark.parametrize("server", [(), ("--logical", 10)])
@pytest.mark.parametrize("carrier", [("rdma",), ("tcp",)])
def test_a_message_above_the_maximum_ends_its_connection(
    programs: Programs, server: tuple[object, ...], carrier: tuple[object, ...]
) -> None:
    _, where = serve(programs, "--message-max", "10K", *server)
    words = (
        "performance_test",
        "-c",
        2,
        "-n",
        3,
        "-t",
        0,
        "--transport",
        *carrier,
        "-s",
        where,
        *(("--qps", 1) if server else ()),
    )
    check_good(programs.run(*words, "-m", 10_240), 2)
    ran = programs.run(*words, "-m", 10_241)
    assert ran.status == 1 and "2 lost" in ran.out, ran


@pytest.mark.parametrize(
    "option", ["--recv-mode=none", "--receive-depth=0", "--unit-bytes=16", "--send-depth=2", "--inline-max=x"]
)
def test_a_number_out_of_range_is_a_usage_error(programs: Programs, option: str) -> None:
    ran = programs.run("echo_server", option, "--print-config")
    assert ran.status == 2 and option.split("=")[0] in ran.err, ran


def test_a_full_server_refuses_further_clients(programs: Programs, clients_over: tuple[str, ...]) -> None:
    _, where = serve(programs, "--max-clients", 3)
    ran = programs.run(*clients_over, "-c", 5, "-n", 1, "-s", where)
    assert ran.status == 1 and "2 connect" in ran.out and "full" in ran.err, ran
    check_good(programs.run(*clients_over, "-c", 3, "-n", 1, "-s", where), 3)


def test_the_limit_of_clients_counts_rdma_and_tcp_together(programs: Programs) -> None:
    _, where = serve(programs, "--max-clients", 7)
    busy(programs, 5, where)
    ran = programs.run("performance_test", "-c", 3, "-n", 1, "--transport", "tcp", "-s", where)
    assert ran.status == 1 and "1 connect" in ran.out and "full" in ran.err, ran


def test_a_port_in_use_is_reported(programs: Programs) -> None:
    _, where = serve(programs)
    ran = programs.run("echo_server", "--listen", HOST, "--port", where.split(":")[1])
    assert ran.status == 1 and "is in use" in ran.err, ran


def test_clients_on_another_host_are_served_over_udp(
    programs: Programs, clients_by: tuple[str, ...], two_hosts: NamespacePair
) -> None:
    port = free_port()
    server = programs.start(
        "echo_server", "--port", port, "--insecure", within=lambda words: two_hosts.inside(0, words)
    )
    wait_until(lambda: "listening at" in server.out, "echo_server listens", alive=server)
    before = two_hosts.udp_datagrams_sent(1)
    words = (*clients_by, "-c", 20, "-n", 10, "-t", 0, "-s", f"{ADDRESSES[0]}:{port}", "--insecure")
    ran = programs.run(*words, within=lambda command: two_hosts.inside(1, command))
    check_good(ran, 20)
    assert two_hosts.udp_datagrams_sent(1) - before > 200


def test_silent_clients_on_another_host_stay_connected_by_heartbeats(
    programs: Programs, two_hosts: NamespacePair
) -> None:
    port = free_port()
    words = ("echo_server", "--port", port, "--insecure", "--metrics-json", "m.json")
    server = programs.start(*words, within=lambda words: two_hosts.inside(0, words))
    wait_until(lambda: "listening at" in server.out, "echo_server listens", alive=server)
    words = ("performance_test", "-c", 5, "-n", 2, "-t", 2500, "-s", f"{ADDRESSES[0]}:{port}", "--insecure")
    check_good(programs.run(*words, within=lambda command: two_hosts.inside(1, command)), 5)
    assert server.end().status == 0
    families = json.loads((programs.folder / "m.json").read_text())
    frames = {each["labels"]["kind"]: each["value"] for each in families["verbena_frames_total"]["samples"]}
    assert frames["heartbeat"] > 0 and frames["credit"] == 0, frames
    retries = [
        sample["value"] for name in families if "retr" in name or "rnr" in name for sample in families[name]["samples"]
    ]
    assert sum(retries) == 0, families
