# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the traces' tests. A test fails if a program is not done within its limit."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from traced import VERBENA, Runner, Traced


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    if not Path(VERBENA).is_file():
        pytest.fail(f"there is no {VERBENA}: run `make build`, or name another build in VERBENA_BUILD", pytrace=False)
    logs = tmp_path / "logs"
    logs.mkdir()
    runner = Runner(logs, way=["env"])
    yield Traced(runner, tmp_path)
    runner.end()


@pytest.fixture(scope="session")
def waits_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("waits") / "waits"
    source = Path(__file__).with_name("waits.c")
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(["gcc", *flags, source, "-o", made, "-libverbs"], check=True, timeout=120)
    return made


@pytest.fixture(scope="session")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("failures") / "failures"
    source = Path(__file__).with_name("failures.cc")
    flags = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(["g++", *flags, source, "-o", made, "-libverbs"], check=True, timeout=120)
    return made
