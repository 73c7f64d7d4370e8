# SPDX-License-Identifier: Apache-2.0
"""The litmus tests under the adversary: permitted outcomes are seen, forbidden ones are not."""

from pathlib import Path

import pytest
from table import MODELS, PAGE, compile_litmus, rows, run

ROWS = rows(PAGE.read_text(encoding="utf-8"))
ROUNDS = 60
# A permitted outcome may be rare: further seeds are tried until each has been seen.
SEEDS_MAX = 40


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_litmus(tmp_path_factory.mktemp("litmus"))


@pytest.mark.parametrize("model", MODELS)
def test_permitted_outcomes_are_seen_and_forbidden_ones_never(program: Path, model: str) -> None:
    forbidden = {row.name for row in ROWS if not row.allowed[model]}
    missing = {row.name for row in ROWS} - forbidden
    tests: list[str] = []
    for seed in range(1, SEEDS_MAX + 1):
        seen = run(program, f"{seed}:{model}", ROUNDS, tests)
        wrong = {name: count for name, count in seen.items() if name in forbidden and count}
        assert wrong == {}, f"seed {seed}"
        missing -= {name for name, count in seen.items() if count}
        if not missing:
            return
        tests = sorted(missing)
    pytest.fail(f"never seen: {missing}")


def test_the_page_has_each_test_of_the_program(program: Path) -> None:
    seen = run(program, None, 1, [])
    assert list(dict.fromkeys(seen)) != []
    assert sorted(seen) == sorted(row.name for row in ROWS)


# Outcomes that need an adversary. Others happen by themselves on a busy machine: a request is sent
# late while another thread has the engine, and a datagram can take longer than the test waits.
UNKIND = ["L8", "L11", "L12", "L24", "L25"]


def test_without_an_adversary_the_nic_is_kind(program: Path) -> None:
    assert run(program, None, ROUNDS, UNKIND).total() == 0


def test_kinds_that_are_left_out_do_nothing(program: Path) -> None:
    assert run(program, "1:tso:only=events", ROUNDS, UNKIND).total() == 0
    # A request that is held back lets those of another queue pair overtake it.
    seen = run(program, "1:tso:only=gather", ROUNDS, ["L1", "L8", "L12", "L24", "L25"])
    assert seen["L1"] > 0 and seen.total() == seen["L1"], seen


def test_messages_take_another_receive_by_the_kind_receives_alone(program: Path) -> None:
    seen = run(program, "1:loose:only=receives", ROUNDS, ["receive-order", "L8", "L28"])
    assert seen["receive-order"] > 0 and seen.total() == seen["receive-order"], seen
