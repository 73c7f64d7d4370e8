"""A user's view: the installed library, and the commands of docs/kv.md as they are printed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from programs import BUILD, ROOT, Programs, wait_until
from test_kv import serve

DOCS = ROOT / "docs" / "kv.md"


def test_a_program_builds_against_an_installation_that_was_moved(programs: Programs) -> None:
    first, prefix = programs.folder / "first", programs.folder / "moved"
    installed = programs.run(shutil.which("cmake"), "--install", BUILD, "--component", "kv", "--prefix", first)
    assert installed.status == 0, installed
    first.rename(prefix)
    assert {path.name.split(".so")[0] for path in prefix.rglob("*.so*")} == {"libverbena-kv", "libverbena-nic"}
    (described,) = prefix.rglob("verbena-kv.pc")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "verbena-kv"],
        env=os.environ | {"PKG_CONFIG_PATH": str(described.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = programs.folder / "published"
    words = [
        shutil.which("cc"),
        "-Wall",
        "-Wextra",
        "-Werror",
        ROOT / "examples" / "kv" / "published.c",
        "-o",
        program,
        *flags,
    ]
    built = programs.run(*words)
    assert built.status == 0, built
    _, where = serve(programs)
    # LD_DEBUG makes the dynamic linker print the libraries that it loads.
    ran = programs.run(program, where, env=os.environ | {"LD_DEBUG": "libs"})
    assert (ran.status, ran.out) == (0, 'greeting = "hello"\nnothing = ""\n'), ran.out
    taken = {Path(path).resolve() for path in re.findall(r"calling init: (\S*libverbena\S*)", ran.err)}
    assert taken == {path.resolve() for path in prefix.rglob("*.so")}, taken


def test_the_commands_of_the_documentation_work_as_they_are_printed(programs: Programs) -> None:
    """The commands run one after the other in one shell, in a folder like the source tree."""
    (programs.folder / "build").symlink_to(BUILD)
    (programs.folder / "examples").symlink_to(ROOT / "examples")
    found = re.search(r"```\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    environment, server, *others = found[1].splitlines()
    shell = programs.start(shutil.which("bash"), stdin=subprocess.PIPE)
    assert shell.process.stdin is not None
    shell.process.stdin.write(f"trap 'kill $(jobs -p)' EXIT\n{environment}\n{server}\n".encode())
    shell.process.stdin.flush()
    wait_until(lambda: "listening at" in shell.out, "kv_server listens", alive=shell)
    shell.process.stdin.write("\n".join(["set -e", *others, ""]).encode())
    shell.process.stdin.close()
    ran = shell.finish()
    assert ran.status == 0 and "a value\n" in ran.out and 'greeting = "hello"' in ran.out, ran
