# SPDX-License-Identifier: Apache-2.0
"""Runs Debian's unmodified programs on the NIC: alone, in pairs on this host, and in pairs between
two network namespaces.

A test here fails if one of the programs exits with an error, prints one, or is not done in time.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from namespaces import NamespacePair, NotPermitted
from pairs import LIMIT_S, NIC, TROUBLE, Command, Network, PairRan, Ran, Runner, free_port, listens, run_pair

# The tests of this folder import these from here.
__all__ = ["LIMIT_S", "TROUBLE", "Command", "Network", "PairRan", "Ran", "Runner", "free_port", "listens", "run_pair"]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    made = Runner(tmp_path)
    yield made
    made.end()


@pytest.fixture
def pair(runner: Runner) -> Callable[[Command], PairRan]:
    """Return pair(PROGRAM), which runs the program on this host as a server and, with the server's
    address added, as a client. Both must succeed.
    """

    def run(program: Command) -> PairRan:
        port = free_port()
        command = [*program, "-p", str(port)]
        return run_pair(runner, command, [*command, "127.0.0.1"], port=port).check()

    return run


@pytest.fixture(scope="session")
def namespaces_of_mtu() -> Iterator[Callable[[int], NamespacePair]]:
    """Return of_mtu(MTU), which gives two network namespaces joined by a wire of that MTU.

    Each pair is made once and kept for the session.
    """
    made: dict[int, NamespacePair] = {}

    def of_mtu(mtu: int) -> NamespacePair:
        if mtu not in made:
            try:
                made[mtu] = NamespacePair(mtu)
            except NotPermitted as refusal:
                pytest.skip(f"no network namespaces here: {refusal}")
        return made[mtu]

    yield of_mtu
    for both in made.values():
        both.close()


@pytest.fixture(params=[1500, 9000])
def netns_pair(request: pytest.FixtureRequest, namespaces_of_mtu: Callable[[int], NamespacePair]) -> NamespacePair:
    for program in ("unshare", "nsenter", "ip"):
        assert shutil.which(program), f"{program} is missing"
    return namespaces_of_mtu(request.param)
