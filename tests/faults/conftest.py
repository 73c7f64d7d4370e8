# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of --faults. A test fails if a program is not done within its limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faulted import VERBENA, Faulted, NamespacePair, NotPermitted, Runner


@pytest.fixture
def faulted(tmp_path: Path) -> Iterator[Faulted]:
    """Programs in two network namespaces of their own: processes of one user share a UDP port."""
    if not Path(VERBENA).is_file():
        pytest.fail(f"there is no {VERBENA}: run `make build`, or name another build in VERBENA_BUILD", pytrace=False)
    try:
        wire = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    logs = tmp_path / "logs"
    logs.mkdir()
    runner = Runner(logs, way=["env"])
    try:
        yield Faulted(runner, tmp_path, wire)
    finally:
        runner.end()
        wire.close()
