# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/kv.md as they are printed."""

import re
import shutil
import subprocess

from programs import BUILD, ROOT, Programs, wait_until

DOCS = ROOT / "docs" / "kv.md"


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
