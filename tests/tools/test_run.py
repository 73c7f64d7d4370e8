# SPDX-License-Identifier: Apache-2.0
"""`verbena run` looks at the program before it starts it: programs with sanitizers and allocators
run on the NIC, programs that it cannot be in are refused in one sentence. `verbena doctor` says the
same without running them.
"""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import BUILD, Programs, Ran

SELF_TALK = Path(__file__).with_name("self_talk.c")
MACHINE_AT = 18  # the field e_machine of an ELF header
EM_AARCH64 = 183


def compiled(source: Path, program: Path, *options: str) -> Path:
    subprocess.run(["gcc", "-g", "-O1", source, *options, "-o", program], check=True, timeout=60)
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run")
    (made / "hello.c").write_text('#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n')
    return made


@pytest.fixture(scope="module")
def self_talk(folder: Path) -> Callable[..., Path]:
    """Return self_talk(NAME, OPTIONS...), which compiles the program with these options."""

    def build(name: str, *options: str) -> Path:
        program = folder / name
        return program if program.exists() else compiled(SELF_TALK, program, *options, "-libverbs")

    return build


def talks(ran: Ran) -> None:
    assert ran.status == 0 and ran.out == "64 messages\n" and ran.err == "", ran


def test_a_program_talks_and_nothing_is_printed_on_standard_error(programs: Programs, self_talk) -> None:
    talks(programs.run("verbena", "run", "--", self_talk("plain")))


@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_a_program_with_a_sanitizer_talks(programs: Programs, self_talk, sanitizer: str) -> None:
    program = self_talk(f"with-{sanitizer}", f"-fsanitize={sanitizer}")
    talks(programs.run("verbena", "run", "--", program, limit_s=60))


def test_a_program_whose_thread_sanitizer_is_linked_into_it_talks(programs: Programs, self_talk) -> None:
    """As with clang; the loader's list of its libraries does not show the sanitizer."""
    program = self_talk("with-thread-inside", "-fsanitize=thread", "-static-libtsan")
    talks(programs.run("verbena", "run", "--", program, limit_s=60))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "suppressions=FILE"),
        ("halt_on_error=1", "suppressions=FILE:halt_on_error=1"),
        ("suppressions=mine", "suppressions=mine"),
    ],
)
def test_a_program_that_a_script_starts_gets_the_suppressions_for_its_thread_sanitizer(
    programs: Programs, before: str | None, after: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TSAN_OPTIONS"}
    if before is not None:
        environment["TSAN_OPTIONS"] = before
    ran = programs.run("verbena", "run", "--", "sh", "-c", 'echo "$TSAN_OPTIONS"', env=environment)
    file = BUILD / "libibverbs" / "thread_sanitizer.suppressions"
    assert file.is_file()
    assert ran.status == 0 and ran.out == f"{after.replace('FILE', str(file))}\n", ran


def test_a_script_that_runs_a_sanitized_program_directly_as_its_interpreter(programs: Programs, self_talk) -> None:
    program = self_talk("with-address", "-fsanitize=address")
    script = programs.folder / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    talks(programs.run("verbena", "run", "--", script, limit_s=60))


def test_a_program_linked_to_jemalloc_talks(programs: Programs, self_talk) -> None:
    program = self_talk("with-jemalloc", "-Wl,--no-as-needed", "-l:libjemalloc.so.2")
    talks(programs.run("verbena", "run", "--", program))


def test_a_program_with_jemalloc_preloaded_talks(programs: Programs, self_talk) -> None:
    environment = os.environ | {"LD_PRELOAD": "libjemalloc.so.2"}
    talks(programs.run("verbena", "run", "--", self_talk("plain"), env=environment))


def test_a_program_under_valgrind_talks_without_a_warning(programs: Programs, self_talk) -> None:
    ran = programs.run("verbena", "run", "--", "valgrind", "--leak-check=full", self_talk("plain"), limit_s=120)
    assert ran.status == 0 and ran.out == "64 messages\n", ran
    assert "WARNING" not in ran.err and "Invalid" not in ran.err and "uninitialised" not in ran.err, ran
    # The thread of the NIC still runs at the end, so glibc's block for its thread-local variables
    # counts as possibly lost, as in each program with such a thread.
    assert "definitely lost: 0 bytes" in ran.err and "indirectly lost: 0 bytes" in ran.err, ran


def refused(programs: Programs, program: object, reason: str, status: int = 126) -> None:
    """Both commands refuse the program for this reason; run says so in one line."""
    ran = programs.run("verbena", "run", "--", program)
    assert ran.status == status and ran.out == "", ran
    assert ran.err.startswith("verbena: ") and reason in ran.err and ran.err.count("\n") == 1, ran
    examined = programs.run("verbena", "doctor", "--json", "--", program)
    assert examined.status == 1, examined
    problem = json.loads(examined.out)["findings"][-1]
    assert problem["level"] == "problem" and reason in problem["seen"] + problem["advice"], examined


@pytest.mark.parametrize("option", ["-static", "-static-pie"])
def test_a_static_program_is_refused(programs: Programs, folder: Path, option: str) -> None:
    program = compiled(folder / "hello.c", programs.folder / "hello", option)
    refused(programs, program, "statically linked")


def test_a_musl_program_is_refused(programs: Programs, folder: Path) -> None:
    loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
    refused(programs, compiled(folder / "hello.c", programs.folder / "hello", loader), "musl")


def test_a_program_of_a_foreign_architecture_is_refused(programs: Programs, folder: Path) -> None:
    program = compiled(folder / "hello.c", programs.folder / "hello")
    image = bytearray(program.read_bytes())
    struct.pack_into("<H", image, MACHINE_AT, EM_AARCH64)
    program.write_bytes(image)
    refused(programs, program, "64-bit Arm")


def test_a_script_of_a_static_interpreter_is_refused(programs: Programs, folder: Path) -> None:
    interpreter = compiled(folder / "hello.c", programs.folder / "hello", "-static")
    script = programs.folder / "script"
    script.write_text(f"#!/usr/bin/env {interpreter}\n")
    script.chmod(0o755)
    refused(programs, script, f"{interpreter}, which runs {script},")


def test_a_program_whose_loader_is_missing_is_not_found(programs: Programs, folder: Path) -> None:
    loader = "-Wl,--dynamic-linker=/nowhere/ld-linux-x86-64.so.2"
    program = compiled(folder / "hello.c", programs.folder / "hello", loader)
    refused(programs, program, "/nowhere/ld-linux-x86-64.so.2", status=127)


def test_a_set_user_id_program_is_refused_to_other_users(programs: Programs, folder: Path) -> None:
    """The owner's bit matters only if the user is another one."""
    program = compiled(folder / "hello.c", programs.folder / "hello")
    program.chmod(0o4755)
    ran = programs.run("verbena", "run", "--", program)
    assert ran.status == 0 and ran.out == "hello\n", ran
    if os.geteuid() != 0:
        pytest.skip("only root may give a file to another user")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    refused(programs, program, "set-user-ID")


def test_a_program_with_file_capabilities_is_refused_to_users(programs: Programs, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a file capabilities")
    # A folder that another user may enter, unlike those of pytest.
    shared = Path("/tmp") / f"verbena-test-run-{os.getpid()}"
    shared.mkdir(mode=0o755)
    try:
        shared.chmod(0o755)
        program = compiled(folder / "hello.c", shared / "hello")
        for name in ("verbena", "libverbena-nic.so"):
            shutil.copy(BUILD / name, shared)
        cap_net_raw = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
        os.setxattr(program, "security.capability", cap_net_raw)
        as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        ran = programs.run(*as_nobody, shared / "verbena", "run", "--", program)
        assert ran.status == 126 and "file capabilities" in ran.err, ran
        ran = programs.run("verbena", "run", "--", program)
        assert ran.status == 0 and ran.out == "hello\n", ran
    finally:
        shutil.rmtree(shared)


def test_a_missing_program_of_a_debian_package_is_named_with_it(programs: Programs) -> None:
    with_empty_path = ["/usr/bin/env", f"PATH={programs.folder}", BUILD / "verbena", "run", "--"]
    ran = programs.run(*with_empty_path, "ib_send_bw")
    assert ran.status == 127 and "apt install perftest" in ran.err, ran
    ran = programs.run(*with_empty_path, "no-such-program")
    assert ran.status == 127 and "no-such-program" in ran.err and "apt" not in ran.err, ran


def test_doctor_looks_at_a_program_without_running_it(programs: Programs, self_talk) -> None:
    program = self_talk("with-address", "-fsanitize=address")
    examined = programs.run("verbena", "doctor", "--", program)
    assert examined.status == 0 and "64 messages" not in examined.out, examined
    assert str(program) in examined.out and "libasan.so" in examined.out, examined


def test_the_options_of_run_become_variables(programs: Programs) -> None:
    ran = programs.run(
        "verbena", "run", "--devices", "-vb_lo", "--log", "info", "--", "sh", "-c", "echo $VERBENA_DEVICES $VERBENA_LOG"
    )
    assert ran.status == 0 and ran.out == "-vb_lo info\n", ran
    ran = programs.run("verbena", "run", "--log=debug", "sh", "-c", "echo $VERBENA_LOG --log")
    assert ran.status == 0 and ran.out == "debug --log\n", ran


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["--log", "loud", "--", "true"], "loud"),
        (["--fast", "true"], "--fast"),
        (["--devices"], "--devices"),
        (["--log", "info"], "PROGRAM"),
    ],
)
def test_a_wrong_line_of_run_is_refused(programs: Programs, line: list[str], says: str) -> None:
    ran = programs.run("verbena", "run", *line)
    assert ran.status == 2 and says in ran.err, ran


def test_a_run_inside_a_run_loads_the_nic_once(programs: Programs) -> None:
    ran = programs.run("verbena", "run", "--", BUILD / "verbena", "run", "sh", "-c", "echo $LD_PRELOAD")
    assert ran.status == 0 and ran.out.count("libverbena-nic.so") == 1, ran
