# SPDX-License-Identifier: Apache-2.0
"""Programs that open libibverbs at run time, in C, Python, Go and Rust, and what they find.

Each program is compiled once and is a process with a time limit. It gets the NIC by one of WAYS.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("VERBENA_BUILD", HERE.parents[1] / "build"))
NIC = BUILD / "libverbena-nic.so"
FOLDER = BUILD / "libibverbs"
LIMIT_S = 60


Environment = dict[str, str]
Compile = Callable[..., Path]


@dataclass(frozen=True)
class Way:
    """A way in which a program gets the NIC: environment variables, or the command before it."""

    environment: Environment = field(default_factory=dict)
    command: tuple[str, ...] = ()


PRELOADED = Way({"LD_PRELOAD": str(NIC)})
WAYS = {
    "verbena run": Way(command=(str(BUILD / "verbena"), "run", "--")),
    "folder": Way({"LD_LIBRARY_PATH": str(FOLDER)}),
}


def run(way: Way, *command: object, variables: Environment | None = None) -> str:
    """Run a program to its end, which must be a success, and return what it wrote to stdout."""
    environment = os.environ | (variables or {}) | way.environment
    line = [*way.command, *command]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}[status {done.returncode}]"
    return done.stdout


def debian(program: str) -> str:
    """Debian's compiler, where a machine also has another one."""
    found = shutil.which(program, path=f"/usr/bin:{os.environ['PATH']}")
    assert found, f"{program} is not installed: run cmake/packages.sh test"
    return found


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    assert (FOLDER / "libibverbs.so.1").samefile(NIC)
    return WAYS[request.param]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return compiled(SOURCE, FLAG...): the program made from a source of this folder."""
    made: dict[tuple[str, ...], Path] = {}
    folder = tmp_path_factory.mktemp("dlopen")

    def compile_once(source: str, *flags: str) -> Path:
        key = (source, *flags)
        if key not in made:
            made[key] = program = folder / f"{len(made)}-{source.partition('.')[0]}"
            match Path(source).suffix:
                case ".c":
                    compiler = ["cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
                case ".go":
                    compiler = [debian("go"), "build"]
                case ".rs":
                    compiler = [debian("rustc"), "-O"]
            command = [*compiler, "-o", program, HERE / source, *flags]
            environment = os.environ | {"GOCACHE": str(folder / "go"), "GO111MODULE": "off", "CGO_ENABLED": "1"}
            subprocess.run(command, env=environment, cwd=folder, check=True, timeout=300)
        return made[key]

    return compile_once


@pytest.fixture(scope="session")
def devices() -> list[str]:
    """The devices that a program sees which is linked with libibverbs and has the NIC preloaded."""
    listing = run(PRELOADED, "ibv_devices").splitlines()[2:]
    names = [line.split()[0] for line in listing]
    assert names
    return names
