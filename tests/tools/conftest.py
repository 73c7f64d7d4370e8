# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run the project's own programs, each as a process of its own on the NIC."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import BUILD, NamespacePair, NotPermitted, Program, Programs
from real_etcd import start_etcd
from refusal import Refuse, compile_refuse


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    yield from made(tmp_path)


@pytest.fixture(scope="module")
def shared_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Programs whose results several tests of a module share."""
    yield from made(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def etcd_program(programs: Programs) -> Iterator[tuple[Program, str]]:
    """A real etcd, and the prefix that the tests use."""
    yield from start_etcd(programs)


@pytest.fixture
def etcd(etcd_program: tuple[Program, str]) -> str:
    return etcd_program[1]


@pytest.fixture(scope="session")
def refuse(tmp_path_factory: pytest.TempPathFactory) -> Refuse:
    return compile_refuse(tmp_path_factory.mktemp("refuse"))


def made(folder: Path) -> Iterator[Programs]:
    if not (BUILD / "verbena").is_file():
        pytest.fail(
            f"there is no {BUILD}/verbena: run `make build`, or name another build folder in VERBENA_BUILD",
            pytrace=False,
        )
    started = Programs(folder)
    yield started
    started.end_all()


@pytest.fixture(scope="session")
def two_hosts() -> Iterator[NamespacePair]:
    """Two network namespaces joined by a wire of MTU 1500."""
    try:
        both = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield both
    both.close()
