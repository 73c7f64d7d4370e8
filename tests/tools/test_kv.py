# SPDX-License-Identifier: Apache-2.0
"""kv_server, kv_client and programs with the C library, each in a process of its own."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from programs import BUILD, ROOT, Program, Programs, Ran, stop, wait_until

HOST = "127.0.0.1"


def serve(programs: Programs, *options: object, environment: dict[str, str] | None = None) -> tuple[Program, str]:
    """Start a server; `environment` is added to that of the test."""
    program = programs.start("kv_server", "--listen", HOST, "--port", 0, *options, env=os.environ | (environment or {}))
    found = wait_until(lambda: re.search(r"listening at [\d.]+:(\d+)", program.out), "kv_server listens", alive=program)
    return program, f"{HOST}:{found[1]}"


def lines(programs: Programs, name: str, *text: str) -> Path:
    path = programs.folder / name
    path.write_text("".join(line + "\n" for line in text))
    return path


def client(programs: Programs, where: str, *text: str, options: tuple[object, ...] = ()) -> Ran:
    return programs.run("kv_client", where, lines(programs, "commands.txt", *text), *options)


WAYS = [
    ("eager", "read", "rdma"),
    ("rndv", "read", "rdma"),
    ("rndv", "write", "rdma"),
    ("auto", "read", "rdma"),
    ("auto", "read", "tcp"),
]


@pytest.mark.parametrize(("proto", "form", "transport"), WAYS)
def test_a_get_returns_the_value_set_over_every_protocol_and_transport(
    programs: Programs, proto: str, form: str, transport: str
) -> None:
    _, where = serve(programs)
    large = "x" * 100_000
    ran = client(
        programs,
        where,
        "SET key a value with spaces",
        "GET key",
        "SET key another",
        "GET key",
        f"SET large {large}",
        "GET large",
        "DEL key",
        "GET key",
        options=("--proto", proto, "--rndv", form, "--transport", transport),
    )
    assert ran.status == 0, ran
    assert ran.out.split("\n") == ["a value with spaces", "another", large, "", ""], ran


def test_a_failed_line_is_reported_by_its_number_and_later_ones_are_executed(programs: Programs) -> None:
    server, where = serve(programs, "--value-max", "1K")
    ran = client(
        programs,
        where,
        "SET key value",
        "PUT key value",
        "SET  value",
        f"SET {'k' * 4097} value",
        f"SET long {'v' * 1025}",
        "SET only",
        "GET key",
        "GET " + "k" * 4097,
    )
    assert ran.status == 1, ran
    assert ran.out == "value\n", ran
    told = dict(re.findall(r"commands\.txt:(\d+): (.*)", ran.err))
    assert sorted(told) == ["2", "3", "4", "5", "6", "8"], ran
    assert "no command" in told["2"] and "empty" in told["3"] and "too long" in told["4"], ran
    assert "value is too long" in told["5"] and "needs a key and a value" in told["6"] and "too long" in told["8"], ran
    assert server.running


def test_the_rule_for_eager_is_the_servers_and_a_client_may_have_its_own(programs: Programs) -> None:
    _, where = serve(programs, "--eager-max", "1K")
    value = "v" * 2000
    # The "eager" counter includes each GET's request, which has no value.
    for options, told in (
        ((), "1 eager, 1 read, 0 written, 1 leased"),
        (("--eager-max", "4K"), "2 eager, 0 read, 0 written, 0 leased"),
        (("--eager-max", "1K", "--rndv", "write"), "1 eager, 1 read, 1 written, 0 leased"),
    ):
        ran = client(programs, where, f"SET key {value}", "GET key", options=("--stats", *options))
        assert ran.status == 0 and ran.out == value + "\n" and told in ran.err, (options, ran)


def test_each_of_two_clients_executes_its_own_file(programs: Programs) -> None:
    _, where = serve(programs)
    files = [lines(programs, f"Client{i}.txt", f"SET key{i} value{i}", f"GET key{i}") for i in (1, 2)]
    ran = programs.run("kv_client", where, *files)
    assert ran.status == 0, ran
    assert sorted(ran.out.splitlines()) == [f"{files[i - 1]}:2: value{i}" for i in (1, 2)], ran


def test_sixteen_sets_of_a_client_are_under_way_at_once(programs: Programs) -> None:
    _, where = serve(programs)
    ran = client(programs, where, *(f"SET key{i} value{i}" for i in range(1000)), "GET key999", options=("--stats",))
    assert ran.status == 0 and ran.out == "value999\n", ran
    assert "16 under way at most" in ran.err, ran


def test_the_sets_of_one_key_keep_their_order(programs: Programs) -> None:
    _, where = serve(programs)
    ran = client(
        programs,
        where,
        *(f"SET key {'v' * (i * 97 % 9000)}{i}" for i in range(300)),
        "GET key",
        options=("--outstanding", 64),
    )
    assert ran.status == 0 and ran.out.lstrip("v") == "299\n", ran


def test_the_error_names_a_server_that_does_not_listen(programs: Programs) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        where = f"{HOST}:{free.getsockname()[1]}"
    ran = client(programs, where, "GET key")
    assert ran.status == 1 and where in ran.err and "no server listens" in ran.err, ran


def test_rendezvous_over_tcp_is_refused_with_the_reason(programs: Programs) -> None:
    _, where = serve(programs)
    ran = client(programs, where, "SET key value", options=("--transport", "tcp", "--proto", "rndv"))
    assert ran.status == 1 and "rendezvous needs an RDMA connection" in ran.err, ran


def test_a_server_of_another_protocol_is_recognized(programs: Programs) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    echo = programs.start("echo_server", "--listen", HOST, "--port", port)
    wait_until(lambda: "listening at" in echo.out, "echo_server listens", alive=echo)
    ran = client(programs, f"{HOST}:{port}", "GET key")
    assert ran.status == 1 and "the server is no kv_server" in ran.err, ran


def test_a_full_store_refuses_sets_and_serves_on(programs: Programs) -> None:
    server, where = serve(programs, "--memory", "1M")
    ran = client(
        programs, where, *(f"SET key{i} {'v' * 50_000}" for i in range(40)), "GET key0", options=("--outstanding", 1)
    )
    assert ran.status == 1 and "the store is full" in ran.err and ran.out == "v" * 50_000 + "\n", ran
    assert client(programs, where, "DEL key0", "SET another value", "GET another").out == "value\n"
    assert server.running


def test_the_server_ends_while_a_client_is_connected_and_reports_its_keys(programs: Programs) -> None:
    server, where = serve(programs)
    waiting = programs.start("kv_client", where, "--timeout-ms", 300, stdin=subprocess.PIPE)
    begins(programs, where, waiting)
    ran = server.end()
    assert ran.status == 0 and ran.seconds < 10 and "1 keys" in ran.out, ran
    assert waiting.running, "the server does not wait until its clients end"
    assert waiting.process.stdin is not None
    waiting.process.stdin.write(b"GET begun\n" * 2)
    waiting.process.stdin.close()
    assert waiting.finish().status == 1


def test_lines_after_the_loss_of_the_only_server_are_reported_as_not_executed(programs: Programs) -> None:
    server, where = serve(programs)
    program = programs.start("kv_client", where, "--timeout-ms", 300, stdin=subprocess.PIPE)
    begins(programs, where, program)
    assert server.end().status == 0
    assert program.process.stdin is not None
    program.process.stdin.write(b"GET begun\n" * 3)
    program.process.stdin.close()
    ran = program.finish()
    told = dict(re.findall(r"standard input:(\d+): (.*)", ran.err))
    assert ran.status == 1, ran
    assert "in time" in told["3"] and "this line and those after it were not executed" in told["4"], ran


def test_the_help_shows_the_real_defaults(programs: Programs) -> None:
    told = programs.run("kv_server", "--help").out
    program, _ = serve(programs)
    for option, name in {"--rx-depth": "rx-depth", "--tx-depth": "tx-depth", "--eager-max": "eager-max"}.items():
        default = re.search(rf"{option} .*=(\d+)", told)
        assert default and f"{name} {default[1]}," in program.out, (option, told, program.out)
    memory = re.search(r"--memory .*=(\d+)G", told)
    assert memory and f"memory {int(memory[1]) << 30}," in program.out, (told, program.out)
    # No other test listens at this address.
    by_default = programs.start("kv_server", "--listen", "127.0.0.77")
    port = re.search(r"--port .*=(\d+)", told)
    assert port
    wait_until(lambda: f"listening at 127.0.0.77:{port[1]}," in by_default.out, "it listens", alive=by_default)
    assert client(programs, "127.0.0.77", "SET key value", "GET key").out == "value\n", (
        "the client's default is the same"
    )


@pytest.mark.parametrize(
    "words", [["--port", "70000"], ["--memory", "lots"], ["--rx-depth", "1"], ["--no-such"], ["--value-max", "65M"]]
)
def test_an_invalid_option_is_a_usage_error(programs: Programs, words: list[str]) -> None:
    assert programs.run("kv_server", *words).status == 2


def begins(programs: Programs, where: str, program: Program) -> None:
    """Let a client execute two lines, and wait until the server has done them.

    The GET makes the client send the SET, which otherwise might wait for further lines.
    """
    assert program.process.stdin is not None
    program.process.stdin.write(b"SET begun yes\nGET begun\n")
    program.process.stdin.flush()
    wait_until(lambda: client(programs, where, "GET begun").out == "yes\n", "the client has set the key", alive=program)


def test_another_client_is_served_while_one_is_stopped(programs: Programs) -> None:
    _, where = serve(programs)
    program = programs.start("kv_client", where, "--proto", "rndv", stdin=subprocess.PIPE)
    begins(programs, where, program)
    assert program.process.stdin is not None
    program.process.stdin.write(f"SET large {'v' * 1_000_000}\n".encode() * 3 + b"GET large\n")
    program.process.stdin.flush()
    stop(program.pid)
    ran = client(programs, where, *(f"SET key{i} value" for i in range(200)), "GET key7", options=("--outstanding", 1))
    assert ran.status == 0 and ran.out == "value\n" and ran.seconds < 10, ran
    os.kill(program.pid, signal.SIGCONT)
    program.process.stdin.close()
    assert program.finish().status == 0


# The C library.


def build_c(programs: Programs, source: Path, *libraries: str) -> Path:
    if shutil.which("pkg-config") is None or shutil.which("cc") is None:
        pytest.skip("no pkg-config or no C compiler here")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "verbena-kv"],
        env=os.environ | {"PKG_CONFIG_PATH": str(BUILD)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = programs.folder / source.stem
    built = programs.run(
        shutil.which("cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags, *libraries
    )
    assert built.status == 0, built
    return program


def test_the_examples_have_less_than_40_lines_and_run(programs: Programs) -> None:
    sources = sorted((ROOT / "examples" / "kv").iterdir())
    assert [path.name for path in sources] == [
        "batch.c",
        "batch.py",
        "client.cc",
        "published.c",
        "servers.c",
        "store.c",
        "watch.c",
    ]
    for path in sources:
        # Without the licence line.
        assert len(path.read_text(encoding="utf-8").splitlines()) - 1 < 40, path

    wheres = [serve(programs)[1] for _ in range(3)]
    ran = programs.run(build_c(programs, ROOT / "examples" / "kv" / "published.c"), wheres[0])
    assert (ran.status, ran.out) == (0, 'greeting = "hello"\nnothing = ""\n'), ran
    ran = programs.run(build_c(programs, ROOT / "examples" / "kv" / "store.c"), wheres[0])
    assert ran.status == 0 and "large has 1048576 bytes; nothing: there is no such key" in ran.out, ran
    assert "1 leased, 1 read, 0 copied" in ran.out, ran
    ran = programs.run(build_c(programs, ROOT / "examples" / "kv" / "batch.c"), wheres[0])
    assert (ran.status, ran.out) == (0, '64 values; the last is "key 63"\n'), ran
    ran = programs.run(build_c(programs, ROOT / "examples" / "kv" / "servers.c"), ",".join(wheres))
    assert (ran.status, ran.out) == (0, "300 of 300 keys are kept, 0 were refused\n"), ran
    assert client(programs, wheres[0], "SET watched a", "SET another b").status == 0
    watch = programs.start(build_c(programs, ROOT / "examples" / "kv" / "watch.c"), wheres[0], "watch")
    wait_until(lambda: watch.out == "watched a\n", "it has looked at the keys", alive=watch)
    assert client(programs, wheres[0], "SET watched c", "SET another d").status == 0
    wait_until(lambda: watch.out == "watched a\nwatched c\n", "it has the event", alive=watch)
    ran = programs.run(BUILD / "bench" / "kv_example_client", wheres[0])
    assert ran.status == 0 and "key 99 has 99000 bytes; 100 SETs were under way at once" in ran.out, ran


def test_the_published_example_uses_the_five_published_functions_and_no_other() -> None:
    text = (ROOT / "examples" / "kv" / "published.c").read_text(encoding="utf-8")
    used = set(re.findall(r"\b(kv_\w+)\(", text)) - {"kv_last_error"}
    assert used == {"kv_open", "kv_set", "kv_get", "kv_release", "kv_close"}


def test_every_call_of_the_c_interface(programs: Programs) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "calls.c")
    _, where = serve(programs)
    for options in (["rdma", "auto"], ["rdma", "eager"], ["rdma", "rndv"], ["tcp", "auto"]):
        ran = programs.run(program, where, *options)
        assert ran.status == 0 and "all good" in ran.out, ran


def test_the_c_library_exports_its_own_names_only(programs: Programs) -> None:
    names = subprocess.run(
        ["nm", "-D", "--defined-only", str(BUILD / "libverbena-kv.so")], capture_output=True, text=True, check=True
    ).stdout
    header = (ROOT / "lib" / "include" / "verbena" / "kv.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^VERBENA_KV_API [^(]*?(kv_\w+)\(", header, re.MULTILINE))
    exported = {line.split()[-1] for line in names.splitlines() if line.split()[-2] != "A"}
    assert exported == {f"{name}@@VERBENA_KV_0.1" for name in declared}, names
