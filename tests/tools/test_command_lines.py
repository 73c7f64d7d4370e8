# SPDX-License-Identifier: Apache-2.0
"""Each program has help, prints its version, names the word that a wrong one may have meant, takes
sizes with units, and says why it has no identity.
"""

import re
import time
from collections.abc import Callable

import pytest
from programs import Programs, installed_programs, wait_until
from test_kv import HOST, lines
from test_rc_programs import free_port

INSTALLED = installed_programs()


def test_all_programs_are_found_in_the_rules_of_installation() -> None:
    assert {"verbena", "kv_server", "kv_client", "echo_server"} < set(INSTALLED) and len(INSTALLED) >= 9


@pytest.mark.parametrize("program", INSTALLED)
def test_each_program_prints_its_version(programs: Programs, program: str) -> None:
    ran = programs.run(program, "--version")
    assert ran.status == 0 and re.fullmatch(rf"{program} \d+\.\d+\.\d+ \([0-9a-f+-]+.*\)\n", ran.out), ran


@pytest.mark.parametrize("program", INSTALLED)
def test_each_program_has_help_on_standard_output(programs: Programs, program: str) -> None:
    ran = programs.run(program, "--help")
    assert ran.status == 0 and ran.err == "" and "--version" in ran.out and "Exit codes: 0" in ran.out, ran


@pytest.mark.parametrize("program", INSTALLED)
def test_each_program_names_a_wrong_option_and_the_nearest_right_one(programs: Programs, program: str) -> None:
    ran = programs.run(program, "--verison")
    assert ran.status == 2 and ran.out == "", ran
    advice = f"Run '{program} --help' for more information.\n"
    assert ran.err == f"{program}: there is no option '--verison'; did you mean '--version'?\n{advice}", ran


def subcommands(programs: Programs, *of: str) -> list[str]:
    """Return the names that a program lists after a subcommand that it does not have."""
    ran = programs.run(*of, "nonesuch")
    found = re.search(r"there is no subcommand 'nonesuch'; there are (.+)\n", ran.err)
    assert ran.status == 2 and found, ran
    return found[1].split(", ")


def test_each_subcommand_has_help_and_names_a_wrong_option(programs: Programs) -> None:
    words = [["verbena", name] for name in subcommands(programs, "verbena")]
    words += [["verbena", "bench", name] for name in subcommands(programs, "verbena", "bench")]
    assert ["verbena", "bench", "rcud"] in words and len(words) >= 15
    for each in words:
        ran = programs.run(*each, "--help")
        assert ran.status == 0 and ran.err == "" and "--help" in ran.out, ran
        # The report's own parser complains about absent arguments first.
        present = ["rows.csv", "-o", "page.html"] if each[-1] == "report" else []
        ran = programs.run(*each, "--hepl", *present)
        assert ran.status == 2 and ran.out == "" and "--hepl" in ran.err, ran


def test_the_subcommand_and_the_option_print_the_same_version(programs: Programs) -> None:
    assert programs.run("verbena", "version").out == programs.run("verbena", "--version").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verbena", "devcies"), "verbena: there is no subcommand 'devcies'; did you mean 'devices'?"),
        (("verbena", "bench", "rcdu"), "verbena: there is no subcommand 'rcdu'; did you mean 'rcud'?"),
        (("verbena", "bnech", "rcud"), "verbena: there is no subcommand 'bnech'; did you mean 'bench'?"),
        (
            ("verbena", "install"),
            "verbena: there is no subcommand 'install'; there are run, explore, why, timeline, top, devices,",
        ),
        (("verbena", "bench", "rcud", "--size", "4"), "there is no option '--size'; did you mean '--sizes'?"),
        (("verbena", "check", "a.csv", "b.csv"), "verbena: the argument 'b.csv' was not expected"),
        (("echo_server", "--prot", "4"), "echo_server: there is no option '--prot'; did you mean '--port'?"),
        (("rc_client", "--verfiy", "127.0.0.1"), "rc_client: there is no option '--verfiy'; did you mean '--verify'?"),
        (("kv_server", "--memroy", "1G"), "kv_server: there is no option '--memroy'; did you mean '--memory'?"),
        (("kv_client", "a", "--stat"), "kv_client: there is no option '--stat'; did you mean '--stats'?"),
        (("ud_client", "--xyz"), "ud_client: there is no option '--xyz'\n"),
        (
            ("verbena", "--log", "info", "run", "--", "true"),
            "verbena: --log is an option of 'verbena run': write it after 'run'\n",
        ),
        (
            ("verbena", "bench", "--sizes", "64", "rcud"),
            "verbena: --sizes is an option of 'verbena bench rcud': write it after 'rcud'\n",
        ),
        (
            ("verbena", "--windows", "64"),
            "--windows is an option of 'verbena bench rcud': write it after the name of the subcommand",
        ),
        (("verbena", "bench", "rcud", "--iters", "1K"), "--iters: '1K' is not a plain number: write 1024\n"),
        (("verbena", "bench", "rcud", "--iters", "many"), "--iters: 'many' is not a number\n"),
        (("verbena", "bench", "rcud", "--reps", "2000"), "--reps: Value 2000 not in range 1 to 1000\n"),
        (("verbena", "bench", "rcud", "--reps", "2K"), "--reps: Value 2K not in range 1 to 1000\n"),
        (("verbena", "top", "--count", "-1"), "--count: "),
        (("kv_server", "--salvage"), "--salvage requires --data\n"),
        (("verbena", "run", "--check=eror", "--", "true"), "--check: eror not in {error,portability,advice}\n"),
    ],
)
def test_a_wrong_word_is_named_and_the_nearest_right_one_too(
    programs: Programs, words: tuple[str, ...], message: str
) -> None:
    ran = programs.run(*words)
    assert ran.status == 2 and message in ran.err and "--help' for more information" in ran.err, ran


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trace", "t.txt", "--", "ls"), "; to give --trace a value write --trace=t.txt\n"),
        (("--adversary", "7", "--", "ls"), "; to give --adversary a value write --adversary=7\n"),
        (("--log", "info", "--check", "error", "--", "ls"), "; to give --check a value write --check=error\n"),
        (("--trace-only", "errors", "--", "ls"), "verbena: --trace-only needs --trace\n"),
        (("--trace-format", "json", "--pcap", "p", "--", "ls"), "verbena: --trace-format needs --trace\n"),
        (("--trace-size", "2M", "--", "ls"), "verbena: --trace-size needs --trace or --pcap\n"),
    ],
)
def test_an_option_of_run_that_has_no_effect_is_refused(
    programs: Programs, words: tuple[str, ...], message: str
) -> None:
    ran = programs.run("verbena", "run", *words)
    assert ran.status == 2 and ran.out == "" and ran.err.endswith(message), ran


def test_a_program_between_an_option_and_dashes_is_run(programs: Programs) -> None:
    """The advice about a forgotten "=" is only for a word that is no program."""
    ran = programs.run("verbena", "run", "--trace", "echo", "--", "--trace")
    assert ran.status == 0 and ran.out == "-- --trace\n", ran
    ran = programs.run("verbena", "run", "--trace=t.txt", "nosuch", "--", "ls")
    assert ran.status == 127 and "write --trace" not in ran.err, ran


def test_a_device_that_is_added_and_does_not_exist_is_named(programs: Programs) -> None:
    ran = programs.run("verbena", "run", "--devices", "+vb_nosuch", "--", "ibv_devices")
    assert "names 'vb_nosuch', and there is no such device" in ran.err and "vb_" in ran.out, ran


def test_an_empty_name_in_a_list_of_servers_is_refused(programs: Programs) -> None:
    ran = programs.run("kv_client", "127.0.0.1,")
    assert ran.status == 2 and ran.err == "kv_client: empty server name in the list '127.0.0.1,'\n", ran


def test_a_file_for_json_that_cannot_be_written_is_refused_before_the_run(programs: Programs) -> None:
    ran = programs.run("performance_test", "-c", 2, "-n", 2, "--json", "/nonexist/x")
    assert ran.status == 1 and ran.out == "" and "/nonexist/x" in ran.err, ran


def test_a_benchmark_that_fills_its_store_names_its_own_option(programs: Programs) -> None:
    words = ("--memory", "64M", "--sizes", "16M", "--window", 16, "--proto", "eager", "--ops", "set", "--reps", 1)
    ran = programs.run("verbena", "bench", "kv", *words, "--iters", 20, "--quiet", limit_s=60)
    assert ran.status == 1 and "give `verbena bench kv` more --memory" in ran.err, ran


def test_a_simulator_has_help_on_standard_output(programs: Programs) -> None:
    for option in ("--help", "-h"):
        ran = programs.run("verbena-sim", option)
        assert ran.status == 0 and ran.out.startswith("usage: verbena-sim") and ran.err == "", ran
    ran = programs.run("verbena-sim", "--version")
    assert ran.status == 0 and re.fullmatch(r"verbena-sim \d+\.\d+\.\d+\n", ran.out), ran
    ran = programs.run("verbena-sim", "--sedes", "1")
    assert ran.status == 2 and ran.out == "", ran


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--loss", "200%"), "--loss takes a probability from 0 to 1, or from 0% to 100%, and not '200%'"),
        (("--corrupt", "x"), "--corrupt takes a probability from 0 to 1, or from 0% to 100%, and not 'x'"),
        (("--reorder", "nan"), "--reorder takes a probability from 0 to 1, or from 0% to 100%, and not 'nan'"),
        (("--seeds", "5:1"), "--seeds takes a seed, or two as A:B with A up to B, and not '5:1'"),
        (("--forge", "1001"), "--forge takes a whole number from 0 to 1000, and not '1001'"),
        (("--seeds",), "--seeds needs a value"),
        (("foo",), "there is no argument 'foo'"),
        (("--sedes", "1"), "there is no option '--sedes'"),
    ],
)
def test_a_simulator_names_the_wrong_argument(programs: Programs, words: tuple[str, ...], said: str) -> None:
    """It printed its whole usage, and not which of the arguments was wrong."""
    ran = programs.run("verbena-sim", *words)
    advice = "Run 'verbena-sim --help' for more information.\n"
    assert (ran.status, ran.out, ran.err) == (2, "", f"verbena-sim: {said}\n{advice}"), ran


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kv_server", "--metrics", "abc"), "--metrics: 'abc' is not a port, 0 to 65535\n"),
        (("echo_server", "--metrics", "127.0.0.1:99999"), "--metrics: '99999' is not a port, 0 to 65535\n"),
        (("performance_test", "--metrics", "x:"), "--metrics: '' is not a port, 0 to 65535\n"),
        (("verbena", "run", "--metrics", "99999", "--", "true"), "--metrics: '99999' is not a port, 0 to 65535\n"),
        (("verbena", "run", "--metrics", "", "--", "true"), "--metrics: must not be empty\n"),
        (("kv_client", "127.0.0.1:99999"), "kv_client: '99999' is not a port, 0 to 65535\n"),
        (("kv_client", "a,b:c"), "kv_client: 'c' is not a port, 0 to 65535\n"),
        (("kv_client", "etcd://"), "kv_client: 'etcd://' is not an etcd prefix; write etcd://HOST:2379/PREFIX"),
        (("kv_client", ""), "kv_client: empty server name in the list ''\n"),
        (("verbena", "kv", "info", ""), "verbena: empty server name in the list ''\n"),
        (("verbena", "kv", "info", "etcds://a:1"), "verbena: 'etcds://a:1' is not an etcd prefix"),
        (("performance_test", "-s", ""), "-s: must not be empty\n"),
        (("performance_test", "-s", "127.0.0.1,"), "performance_test: empty server name in the list '127.0.0.1,'\n"),
        (("performance_test", "-s", "127.0.0.1:x"), "performance_test: 'x' is not a port, 0 to 65535\n"),
        (("kv_server", "--port", "99999"), "--port: Value 99999 not in range 0 to 65535\n"),
        (("echo_server", "--port", "-1"), "--port: Value -1 not in range 0 to 65535\n"),
        (("echo_server", "--poll-us", "abc"), "--poll-us: 'abc' is not a number\n"),
        (("kv_server", "--poll-us", "5000000"), "--poll-us: Value 5000000 not in range 0 to 1000000\n"),
        (("verbena", "bench", "rcud", "--port", "99999"), "--port: Value 99999 not in range 0 to 65535\n"),
        # These options have no range of their own.
        (("verbena", "explore", "--first-seed", "x", "--", "true"), "--first-seed: 'x' is not a number\n"),
        (("verbena", "explore", "--first-seed", "1e3", "--", "true"), "--first-seed: '1e3' is not a whole number\n"),
        (("verbena", "bench", "kv", "--poll-us", "-1"), "--poll-us: -1 is out of range\n"),
    ],
)
def test_a_value_that_an_option_cannot_take_is_wrong_usage(
    programs: Programs, words: tuple[str, ...], said: str
) -> None:
    """Some ended with 1, some did not say what is permitted, and an empty -s started a server."""
    ran = programs.run(*words)
    assert ran.status == 2 and ran.out == "" and said in ran.err, ran


@pytest.mark.parametrize("words", [("bench",), ("kv",), ("kv", "info"), ("bench", "kv")])
def test_the_help_of_a_subcommand_has_its_own_examples(programs: Programs, words: tuple[str, ...]) -> None:
    ran = programs.run("verbena", *words, "--help")
    examples = re.findall(r"^  verbena (.*)$", ran.out.partition("Examples:")[2], re.MULTILINE)
    assert examples and all(example.startswith(" ".join(words)) for example in examples), ran


def test_a_subcommand_without_a_text_of_its_own_has_not_that_of_the_program(programs: Programs) -> None:
    """The help of `verbena version` had the examples and the exit codes of `verbena`."""
    ran = programs.run("verbena", "version", "--help")
    assert ran.status == 0 and "Print the version" in ran.out, ran
    assert "Examples" not in ran.out and "Exit codes" not in ran.out, ran


def test_a_size_may_have_a_unit_in_every_program(programs: Programs) -> None:
    ran = programs.run("performance_test", "-c", 2, "-n", 2, "-m", "1K")
    assert ran.status == 0, ran
    words = ("--clients", 2, "--size", "1K", "--reps", 1, "--seconds", 0.1, "--warmup", 0, "--transport", "tcp")
    ran = programs.run("verbena", "bench", "scale", *words, "--csv", "-", "--quiet")
    assert ran.status == 0 and ",1024," in ran.out, ran
    ran = programs.run("performance_test", "-m", "65M")
    assert ran.status == 2 and "Value 65M not in range 1 to 64M" in ran.err, ran


def in_mounts(programs: Programs, script: str) -> Callable[[list[str]], list[str]]:
    """Return the `within` for programs that see what `script` mounts and sets."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh"]
    if programs.run("true", within=lambda command: [*words, *command]).status != 0:
        pytest.skip("no mount namespaces here")
    return lambda command: [*words, *command]


def test_programs_with_a_read_only_home_or_none_share_an_identity(programs: Programs) -> None:
    home, session = programs.folder / "home", programs.folder / "session"
    for folder in (home, session):
        folder.mkdir()
    setting = f"export XDG_RUNTIME_DIR={session} && unset XDG_CONFIG_HOME"
    read_only = f"mount -t tmpfs -o ro none {home} && {setting} && export HOME={home}"
    for script in (read_only, f"{setting} && unset HOME", f"{setting} && export HOME=/nonexistent"):
        within = in_mounts(programs, script)
        server = programs.start("echo_server", "--listen", HOST, "--port", 0, within=within)
        wait_until(lambda server=server: "listening at" in server.out, "echo_server listens", alive=server)
        assert f"trusts programs of this user ({session}/verbena/identity.pem)" in server.out, server.out


def test_without_a_folder_that_can_be_written_the_reason_is_named(programs: Programs) -> None:
    mounts = "".join(f"mount -t tmpfs -o ro none {folder} && " for folder in ("/dev/shm", "/tmp"))
    unset = "unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR && export HOME=/tmp"
    ran = programs.run("echo_server", "--port", 0, within=in_mounts(programs, mounts + unset))
    assert ran.status == 2 and "cannot make the folder /tmp/.config/verbena (Read-only file system)" in ran.err, ran
    assert "set XDG_CONFIG_HOME to a folder that can be written" in ran.err, ran


@pytest.mark.parametrize("option", ["--check", "--trace"])
def test_without_a_temporary_folder_the_remedy_is_named(programs: Programs, option: str) -> None:
    read_only = in_mounts(programs, "mount -t tmpfs -o ro t /tmp && mount -t tmpfs -o ro t /dev/shm && unset TMPDIR")
    ran = programs.run("verbena", "run", option, "--", "true", within=read_only)
    assert ran.status == 1 and "name a folder that can be written in TMPDIR" in ran.err, ran


def test_clients_wait_for_a_server_that_starts_after_them(programs: Programs) -> None:
    port = free_port()
    client = programs.start("rc_client", "127.0.0.1", "--port", port, "--iters", 100, "--wait", 20)
    wait_until(lambda: "Attempting" in client.out, "the client has begun", alive=client)
    programs.start("rc_server", "--port", port)
    ran = client.finish()
    assert ran.status == 0 and "ESTABLISHED" in ran.out, ran

    port = free_port()
    client = programs.start("performance_test", "-c", 2, "-n", 2, "-s", f"127.0.0.1:{port}", "--wait", 20)
    programs.start("echo_server", "--port", port)
    ran = client.finish()
    assert ran.status == 0 and "judged: valid" in ran.out, ran


def test_kv_client_waits_for_all_servers_of_its_list(programs: Programs) -> None:
    ports = [free_port(), free_port()]
    keys = [f"key{i}" for i in range(16)]  # both servers get some of them
    script = lines(programs, "commands.txt", *(f"SET {key} v-{key}" for key in keys), *(f"GET {key}" for key in keys))
    where = ",".join(f"{HOST}:{port}" for port in ports)
    client = programs.start("kv_client", where, script, "--wait", 20)
    for port in ports:
        server = programs.start("kv_server", "--listen", HOST, "--port", port)
        wait_until(lambda server=server: "listening at" in server.out, "kv_server listens", alive=server)
    ran = client.finish()
    assert ran.status == 0 and ran.out.split() == [f"v-{key}" for key in keys], ran


def test_without_wait_a_client_fails_soon(programs: Programs) -> None:
    ran = programs.run("rc_client", "127.0.0.1", "--port", free_port())
    assert ran.status == 1 and "start the server there first" in ran.err and ran.seconds < 10, ran
    ran = programs.run("kv_client", f"{HOST}:{free_port()}", lines(programs, "commands.txt", "GET key"))
    assert ran.status == 1 and "start the server there first" in ran.err and ran.seconds < 10, ran


def test_a_server_without_descriptors_does_not_say_so_for_each_client(programs: Programs) -> None:
    few = ["prlimit", "--nofile=64:64"]
    server = programs.start("echo_server", "--listen", "127.0.0.1", "--port", 0, within=lambda words: [*few, *words])
    where = wait_until(
        lambda: re.search(r"listening at (127\.0\.0\.1:\d+)", server.out), "echo_server listens", alive=server
    )[1]
    begun = time.monotonic()
    # At most five groups of 64 set-ups, each with 3 s.
    ran = programs.run("performance_test", "-c", 300, "-n", 1, "-s", where, "--connect-timeout-s", 3)
    assert ran.status == 1, ran
    seconds = time.monotonic() - begun + 1
    said = [line for line in server.err.splitlines() if "Too many open files" in line]
    # Several sentences end in these words, and each may come once a second.
    assert 0 < len(said) < 6 * seconds, server.err


def test_doctor_without_an_interface_says_how_to_get_one(programs: Programs) -> None:
    ran = programs.run("verbena", "doctor", within=lambda words: ["unshare", "--map-root-user", "--net", *words])
    assert ran.status == 1, ran
    assert "none, because no network interface is up" in ran.out and "'ip link set lo up' is enough" in ran.out, ran
