# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/kv.md as they are printed."""

import os
import re
import shutil
import subprocess
import sys
import textwrap

from programs import BUILD, ROOT, Programs
from test_kv import serve

DOCS = ROOT / "docs" / "kv.md"


def test_the_commands_of_the_documentation_work_as_they_are_printed(programs: Programs) -> None:
    """The commands run one after the other in one shell, in a folder like the source tree.

    The client does not wait for the server's first line, just as a reader who pastes them all.
    """
    (programs.folder / "build").symlink_to(BUILD)
    (programs.folder / "examples").symlink_to(ROOT / "examples")
    found = re.search(r"```\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    environment, server, *others = found[1].splitlines()
    shell = programs.start(shutil.which("bash"), stdin=subprocess.PIPE)
    assert shell.process.stdin is not None
    shell.process.stdin.write(f"trap 'kill $(jobs -p)' EXIT\n{environment}\n{server}\n".encode())
    shell.process.stdin.write("\n".join(["set -e", *others, ""]).encode())
    shell.process.stdin.close()
    ran = shell.finish()
    assert ran.status == 0 and "a value\n" in ran.out and 'greeting = "hello"' in ran.out, ran


def test_the_python_program_of_the_documentation_runs(programs: Programs) -> None:
    chapter = DOCS.read_text(encoding="utf-8").partition("\n## The Python interface\n")[2].partition("\n## ")[0]
    found = re.search(r"^    import asyncio\n(?:(?:    .*)?\n)*", chapter, re.MULTILINE)
    assert found and "AsyncStore(" in found[0]
    _, where = serve(programs)
    program = textwrap.dedent(found[0]).replace("a:7472,b:7472", where)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "python"),
        "VERBENA_KV_LIBRARY": str(BUILD / "libverbena-kv.so"),
    }
    ran = programs.run(sys.executable, "-B", "-W", "error", "-c", program, env=environment)
    assert ran.status == 0 and ran.out.count("<memory at ") == 2, ran
