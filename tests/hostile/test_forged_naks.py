# SPDX-License-Identifier: Apache-2.0
"""A user of the peer's host who knows the QPN and sweeps the PSNs with forged NAKs does not end a
connection (docs/decisions/0028)."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from naks import NIC, NamespacePair, build, stream_under_attack
from namespaces import NotPermitted

SECONDS = 4.0
PACKETS_PER_SECOND = 200_000
STREAMS_MAX = 6


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    if not NIC.is_file():
        pytest.fail(f"there is no {NIC}: run `make build`", pytrace=False)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the forger is another user
        build("stream", Path(folder), "-libverbs")
        build("forge_naks", Path(folder))
        yield Path(folder)


@pytest.fixture
def hosts() -> Iterator[NamespacePair]:
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


def test_a_sweep_of_forged_naks_does_not_end_a_connection(hosts: NamespacePair, programs: Path) -> None:
    for _ in range(STREAMS_MAX):  # one sweep may miss the window, which moves
        outcome = stream_under_attack(hosts, programs, SECONDS, PACKETS_PER_SECOND)
        print(outcome)  # for pytest -rP
        assert outcome.received["messages"] == outcome.sent["messages"] > 100
        assert outcome.sent["stray_answers"] > 1_000, "the forger's packets reached the connection"
        if outcome.sent["naks_refuted"] > 0:
            break
    assert 0 < outcome.sent["naks_refuted"] <= outcome.sent["fatal_naks_received"]
    assert "was forged and has no effect" in outcome.log
