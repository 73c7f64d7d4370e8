# SPDX-License-Identifier: Apache-2.0
"""An installation of all components, which was moved to another folder after it was made."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
COMPONENTS = ("nic", "tools", "servers", "kv", "dev", "python")
LIMIT_S = 60


def run(*command: object, status: int = 0, **options: object) -> str:
    """Run a program to its end, and return its output. It must end with this status."""
    words = [str(word) for word in command]
    given = {"stdin": subprocess.DEVNULL} | options
    done = subprocess.run(  # type: ignore[call-overload]
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
        **given,
    )
    assert done.returncode == status, f"$ {' '.join(words)}\n{done.stdout}[status {done.returncode}]"
    return done.stdout


def install(prefix: Path, component: str, build: Path = BUILD) -> set[str]:
    """Install a component; return its files, relative to the prefix."""
    run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}


@contextlib.contextmanager
def serving(*command: object, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a server, and yield its first line. It ends when its input ends, or by a signal."""
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:
        try:
            yield server.stdout.readline()
            server.stdin.close()
            server.terminate()
            server.wait(LIMIT_S)
        finally:
            server.kill()


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    (folder / "first").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who has an identity of their own and no variable of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VERBENA", "LD_", "PYTHON"))}
    return kept | {"XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("configuration"))}
