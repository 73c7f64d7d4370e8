# SPDX-License-Identifier: Apache-2.0
"""Starts the library's programs for the tests beside hostile peers, and measures them."""

import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("python", "tests/tools"):
    sys.path.append(str(ROOT / folder))
from programs import BUILD, Program, Programs, wait_until  # noqa: E402

__all__ = [
    "BUILD",
    "LONG",
    "ROOT",
    "Program",
    "Programs",
    "allow_descriptors",
    "descriptors",
    "memory",
    "serve_echo",
    "started",
]

# All cases instead of a sample of them.
LONG = os.environ.get("VERBENA_HOSTILE") == "long"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Programs]:
    """Programs with an identity of their own, which are killed at the end of the test."""
    if not (BUILD / "echo_server").is_file():
        pytest.fail(f"there is no {BUILD}/echo_server: run `make build`, or set VERBENA_BUILD", pytrace=False)
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    (tmp_path / "config").mkdir(mode=0o700)
    programs = Programs(tmp_path)
    yield programs
    programs.end_all()
    if before is None:
        del os.environ["XDG_CONFIG_HOME"]
    else:
        os.environ["XDG_CONFIG_HOME"] = before


def serve_echo(programs: Programs, *options: object, **how: object) -> tuple[Program, int]:
    """Start echo_server and return it with its port."""
    command = ("echo_server", "--listen", "127.0.0.1", "--port", 0, *options)
    server = programs.start(*command, **how)  # type: ignore[arg-type]
    found = wait_until(lambda: re.search(r"listening at \S+?:(\d+)", server.out), "the server listens", alive=server)
    return server, int(found[1])


def memory(pid: int, name: str = "VmRSS") -> int:
    """Return a figure of the process's memory in bytes: VmRSS, or VmHWM for its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def allow_descriptors(count: int) -> None:
    """Raise this process's limit, which the programs that it starts inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
        if hard < count:
            pytest.skip(f"this test needs {count} descriptors, and this host allows {hard}")
