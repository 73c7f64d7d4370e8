# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of `verbena run --check`. A test fails if a program is not done in time."""

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checked import VERBENA, Checked

SOURCES = {
    "programs": ["programs", "lifetime", "buffers", "queues", "ordering", "portability"],
    "threads": ["threads"],
    "messages": ["messages"],
    "together": ["together"],
    "callers": ["callers"],
}


def compiled(name: str, folder: Path, *more: str) -> Path:
    made = folder / name
    sources = [Path(__file__).with_name(f"{source}.c") for source in SOURCES[name]]
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *more]
    subprocess.run(["gcc", *flags, *sources, "-o", made, "-lrdmacm", "-libverbs", "-pthread"], check=True, timeout=120)
    return made


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("programs", tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def sanitized_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("programs", tmp_path_factory.mktemp("sanitized"), "-fsanitize=address")


@pytest.fixture(scope="session")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds one of SOURCES with the thread sanitizer, once."""
    folder = tmp_path_factory.mktemp("raced")

    @functools.cache
    def build(name: str) -> Path:
        return compiled(name, folder, "-fsanitize=thread")

    return build


@pytest.fixture
def threads(tmp_path: Path) -> Path:
    return compiled("threads", tmp_path)


@pytest.fixture
def checked(programs: Path, tmp_path: Path) -> Checked:
    if not Path(VERBENA).is_file():
        pytest.fail(f"there is no {VERBENA}: run `make build`, or name another build in VERBENA_BUILD", pytrace=False)
    return Checked(programs, tmp_path)
