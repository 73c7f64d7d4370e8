# SPDX-License-Identifier: Apache-2.0
"""The includes of the whole tree keep the rules of floors.py, and the check finds planted
violations.
"""

import re
from pathlib import Path

import pytest
from floors import FLOORS, LINES_MAX, TREES, check_tree, floor_of

ROOT = Path(__file__).resolve().parents[2]


def plant(root: Path, files: dict[str, str]) -> Path:
    """Make a source tree of these files."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_every_include_keeps_the_order_of_the_floors() -> None:
    violations = check_tree(ROOT)
    assert not violations, "\n" + "\n".join(map(str, violations))


def test_the_floors_have_no_cycle() -> None:
    below = {floor: set(allowed) for floor, allowed in FLOORS.items()}
    while below:
        ground = {floor for floor, allowed in below.items() if not allowed & below.keys()}
        assert ground, f"a cycle among {sorted(below)}"
        below = {floor: allowed for floor, allowed in below.items() if floor not in ground}


CMAKE_FLOOR = re.compile(r"^verbena_floor\((\S+?)(?:\s+USES\s+([^)]*?))?(?:\s+LINKS\s[^)]*)?\)", re.MULTILINE)


def test_cmake_links_each_floor_only_to_floors_that_it_may_include() -> None:
    built = {}
    for file in ("CMakeLists.txt", "bench/CMakeLists.txt"):
        for folder, uses in CMAKE_FLOOR.findall((ROOT / file).read_text()):
            built[folder] = uses.split()
    without_target = {"lib/include", "bench/instructions", "bench/peers", "tools"}
    assert built.keys() >= FLOORS.keys() - without_target, "these have no target of their own"
    for folder, uses in built.items():
        floor = floor_of(f"{folder}/any.h")
        assert floor is not None, f"{folder} is on no floor"
        others = {floor_of(f"{used}/any.h") for used in uses} - {floor}
        assert others <= FLOORS[floor], f"{folder} may not be linked to {sorted(map(str, others - FLOORS[floor]))}"


def test_a_tree_that_keeps_the_rules_has_no_violation(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "base/check.h": "#pragma once\n#include <cstdio>\n",
            "nic/wire/bth.h": '#include "base/check.h"\n',
            "nic/wire/bth.cc": '#include "nic/wire/bth.h"\n',
            "bench/rcud/loop.cc": '#include <infiniband/verbs.h>\n#include "base/check.h"\n',
        },
    )
    assert check_tree(root) == []


@pytest.mark.parametrize(
    ("path", "text", "line", "rule"),
    [
        (
            "base/a.h",
            '#pragma once\n#include "nic/wire/bth.h"\n',
            2,
            "base may not include nic/wire; it may include nothing",
        ),
        ("nic/wire/a.cc", '\n\n#include "nic/adapter/adapter.h"\n', 3, "nic/wire may not include nic/adapter"),
        ("bench/rcud/a.cc", '#include "nic/wire/bth.h"\n', 1, "bench/rcud may not include nic/wire"),
        ("lib/verbs/a.cc", '  #  include "nic/wire/bth.h"\n', 1, "lib/verbs may not include nic/wire"),
        ("nic/adapter/a.cc", "#include <infiniband/verbs.h>\n", 1, "nic/adapter does not speak the verbs ABI"),
        ("nic/wire/a.cc", '#include "bth.h"\n', 1, "from the root"),
        ("tools/a.cc", '#include "tests/b.h"\n', 1, "is on no floor"),
        ("nic/stray/a.h", "#pragma once\n", 1, "on no floor"),
        ("base/a.cc", "\n" * (LINES_MAX + 1), LINES_MAX, "split the file"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, path: str, text: str, line: int, rule: str) -> None:
    root = plant(tmp_path, {"nic/wire/bth.h": "", "nic/adapter/adapter.h": "", "tests/b.h": "", path: text})
    (violation,) = check_tree(root)
    assert (violation.path, violation.line) == (path, line)
    assert rule in violation.rule
    assert str(violation).startswith(f"{path}:{line}: ")


def test_every_floor_lies_in_a_tree_that_is_read() -> None:
    assert {floor.split("/")[0] for floor in FLOORS} == set(TREES)
