"""Fixtures of the traces' tests. A test fails if a program is not done within its limit."""

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
