# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of --profile. A test fails if a program is not done within its limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from profiled import VERBENA, Profiled, Runner


@pytest.fixture
def profiled(tmp_path: Path) -> Iterator[Profiled]:
    if not Path(VERBENA).is_file():
        pytest.fail(f"there is no {VERBENA}: run `make build`, or name another build in VERBENA_BUILD", pytrace=False)
    logs = tmp_path / "logs"
    logs.mkdir()
    runner = Runner(logs, way=["env", "-u", "VERBENA_PROFILE"])
    yield Profiled(runner)
    runner.end()
