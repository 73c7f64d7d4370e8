# SPDX-License-Identifier: Apache-2.0
"""The floors, which may include which, and the check of every #include line (docs/architecture.md).

A floor is a folder. A file belongs to the floor of the longest folder that contains it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ADAPTER = {"nic/transport", "nic/cm", "nic/wire", "nic/memory", "nic/queues", "base"}
BELOW_FAULTS = {"nic/adapter", "nic/link", "nic/trace"} | ADAPTER
BELOW_ADVERSARY = {"nic/adapter"} | ADAPTER
ENGINE = {"nic/faults", "nic/faults/spec", "nic/status"} | BELOW_FAULTS

EXPERIMENTS = {"bench/rcud", "bench/connect", "bench/scale", "bench/kv", "bench/rpc"}
MEASUREMENT = {
    "bench",
    "bench/far_end",
    "bench/rivals",
    "bench/sweep",
    "bench/judge",
    "bench/table",
    "lib/verbs",
    "base",
}

# Floor -> the floors that it may include, besides itself.
FLOORS: dict[str, set[str]] = {
    "base": set(),
    "nic/trace": {"base"},
    "nic/wire": {"base"},
    "nic/status": {"base"},
    "nic/trace/read": {"nic/trace", "nic/wire", "base"},
    "nic/memory": {"base"},
    "nic/queues": {"base"},
    "nic/link": {"nic/wire", "base"},
    "nic/cm": {"nic/wire", "base"},
    "nic/transport": {"nic/wire", "nic/memory", "nic/queues", "base"},
    "nic/adapter": ADAPTER,
    "nic/observe": {"nic/trace", "nic/adapter"} | ADAPTER,
    "nic/adversary/spec": {"base"},
    "nic/adversary": {"nic/adversary/spec"} | BELOW_ADVERSARY,
    "nic/faults/spec": {"base"},
    "nic/faults": {"nic/faults/spec"} | BELOW_FAULTS,
    "nic/engine": ENGINE,
    "nic/sim": {"nic/adversary", "nic/adversary/spec"} | BELOW_FAULTS,
    "nic/profile": {"base"},
    "nic/presence": {"base"},
    "nic/heap": {"base"},
    "nic/rules": {"nic/memory", "nic/queues", "base"},
    "nic/verbs": {
        "nic/ucma",
        "nic/engine",
        "nic/adversary",
        "nic/adversary/spec",
        "nic/observe",
        "nic/rules",
        "nic/profile",
        "nic/presence",
        "nic/heap",
    }
    | ENGINE,
    "nic/ucma": {"nic/engine", "nic/presence"} | ENGINE,
    "lib/async": {"base"},
    "lib/verbs": {"base"},
    "lib/channel/setup": {"base"},
    "lib/channel": {"lib/channel/setup", "lib/async", "lib/verbs", "base"},
    "lib/discovery": {"lib/channel/setup", "base"},
    "lib/rpc": {"lib/discovery", "lib/channel", "lib/channel/setup", "lib/verbs", "lib/async", "base"},
    "lib/kv/state": {"base"},
    "lib/kv": {
        "lib/kv/state",
        "lib/include",
        "lib/discovery",
        "lib/channel",
        "lib/channel/setup",
        "lib/verbs",
        "lib/async",
        "base",
    },
    "lib/metrics": {"lib/channel", "lib/channel/setup", "lib/verbs", "lib/async", "base"},
    "lib/include": {"lib/rpc", "lib/discovery", "lib/channel", "lib/channel/setup", "lib/verbs", "lib/async", "base"},
    "bench/table": {"base"},
    "bench/judge": {"bench/table", "base"},
    "bench/sweep": {"bench/judge", "bench/table", "base"},
    "bench/far_end": {"lib/verbs", "base"},
    "bench/rivals": {"base"},
    "bench": {"bench/table", "base"},
    # No experiment includes another one.
    "bench/rcud": MEASUREMENT,
    "bench/connect": MEASUREMENT,
    "bench/scale": {"lib/metrics", "lib/channel", "lib/channel/setup", "lib/async"} | MEASUREMENT,
    "bench/kv": {"lib/include", "lib/kv", "lib/channel", "lib/channel/setup", "lib/async"} | MEASUREMENT,
    "bench/rpc": {"lib/include", "lib/rpc", "lib/channel", "lib/channel/setup", "lib/async"} | MEASUREMENT,
    "bench/instructions": set(),
    "bench/peers": {"bench/rcud"} | MEASUREMENT,
    "tools": {
        "nic/trace/read",
        "nic/status",
        "nic/faults/spec",
        "nic/profile",
        "nic/adversary/spec",
        "lib/include",
        "lib/metrics",
        "lib/async",
        "lib/channel/setup",
        "lib/channel",
        "lib/discovery",
        "lib/rpc",
        "lib/kv",
    }
    | EXPERIMENTS
    | MEASUREMENT,
}
# Headers that the build generates, and their floors.
GENERATED = {"commit.h": "bench"}
TREES = ("base", "nic", "lib", "bench", "tools")
# The floors that may include the headers of libibverbs and librdmacm: those that implement the ABI,
# its rules, and those above it.
SPEAKS_VERBS = {
    "nic/verbs",
    "nic/ucma",
    "nic/rules",
    "lib/verbs",
    "lib/channel",
    "lib/rpc",
    "lib/kv",
    "bench/instructions",
    "bench/peers",
    "tools",
} | EXPERIMENTS
LINES_MAX = 900

SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".c", ".S"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Violation(NamedTuple):
    """A broken rule, printed as PATH:LINE: RULE."""

    path: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}"


def floor_of(path: str) -> str | None:
    """Return the floor of a file, or None if it is on no floor."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        folder = "/".join(parts[:length])
        if folder in FLOORS:
            return folder
    return None


def check_include(root: Path, floor: str, quoted: bool, target: str) -> str | None:
    """Return the rule that this #include breaks, or None."""
    if not quoted:
        if target.startswith(("infiniband/", "rdma/")) and floor not in SPEAKS_VERBS:
            return f"<{target}>: {floor} does not speak the verbs ABI; only {', '.join(sorted(SPEAKS_VERBS))} do"
        return None
    if target not in GENERATED and not (root / target).is_file():
        return f'"{target}": no such file; a quoted include names a file of this project by its path from the root'
    other = GENERATED.get(target) or floor_of(target)
    if other is None:
        return f'"{target}": is on no floor, and nothing may include it'
    if other != floor and other not in FLOORS[floor]:
        allowed = ", ".join(sorted(FLOORS[floor])) or "nothing"
        return f'"{target}": {floor} may not include {other}; it may include {allowed}'
    return None


def check_file(root: Path, path: str) -> Iterator[Violation]:
    lines = (root / path).read_text(errors="replace").splitlines()
    if len(lines) > LINES_MAX:
        yield Violation(path, LINES_MAX, f"{len(lines)} lines; at most {LINES_MAX}: split the file")
    floor = floor_of(path)
    if floor is None:
        yield Violation(
            path, 1, "on no floor; add its folder to tests/layering/floors.py and docs/architecture.md, or move it"
        )
        return
    for number, line in enumerate(lines, start=1):
        if found := INCLUDE.match(line):
            rule = check_include(root, floor, found[1] == '"', found[2])
            if rule:
                yield Violation(path, number, rule)


def check_tree(root: Path) -> list[Violation]:
    files = sorted(
        file.relative_to(root).as_posix()
        for tree in TREES
        for file in (root / tree).rglob("*")
        if file.suffix in SUFFIXES and file.is_file()
    )
    return [violation for path in files for violation in check_file(root, path)]
