# SPDX-License-Identifier: Apache-2.0
"""The wheel, and an environment of Python outside of the source tree in which it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
LIMIT_S = 120
# No index of packages is asked: the dependencies are Debian's.
OFFLINE = (
    "--no-index",
    "--no-deps",
    "--no-build-isolation",
    "--no-cache-dir",
    "--quiet",
    "--disable-pip-version-check",
)


def run(*command: object, status: int = 0, **options: object) -> str:
    """Run a program to its end, and return its output. It must end with this status."""
    words = [str(word) for word in command]
    given = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT} | options
    done = subprocess.run(  # type: ignore[call-overload]
        words, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False, **given
    )
    assert done.returncode == status, f"$ {' '.join(words)}\n{done.stdout}[status {done.returncode}]"
    return done.stdout


def build_wheel(out: Path, *options: object) -> Path:
    run(sys.executable, "-B", ROOT / "python" / "wheel.py", "--out", out, *options)
    (wheel,) = out.glob("*.whl")
    return wheel


def make_environment(folder: Path, what: Path, *options: str) -> Path:
    """Make an environment of Python, install `what` in it, and return its folder of programs."""
    run(sys.executable, "-m", "venv", "--without-pip", *options, folder)
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", *OFFLINE, what)
    return folder / "bin"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and Debian's packages of Python."""
    return make_environment(tmp_path_factory.mktemp("venv"), wheel, "--system-site-packages")


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user with an identity, and no variable of ours but one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VERBENA", "LD_", "PYTHON"))}
    folder = tmp_path_factory.mktemp("configuration")
    return kept | {"XDG_CONFIG_HOME": str(folder), "VERBENA_PROGRAM": str(BUILD / "verbena")}
