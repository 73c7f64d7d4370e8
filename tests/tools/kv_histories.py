"""What clients that ran tests/kv/history.c did, and whether it can be."""

import sys
from pathlib import Path

import pytest
from programs import ROOT, Program, Programs
from test_kv import build_c

sys.path.append(str(ROOT / "tests" / "kv"))
from linearizable import INFINITE, Operation, violation

__all__ = ["INFINITE", "Operation", "build_history", "check", "histories", "violation"]


def build_history(factory: pytest.TempPathFactory) -> Path:
    return build_c(Programs(factory.mktemp("history")), ROOT / "tests" / "kv" / "history.c")


def histories(clients: dict[int, Program], servers_end: bool = False) -> dict[str, list[Operation]]:
    """Of each key. The last line of a client that was killed may be cut; that of one whose server ended may say that its SET failed: then
    nobody knows whether it took effect."""
    keys: dict[str, list[Operation]] = {}
    for number, client in clients.items():
        begun: dict[str, tuple[str, float]] = {}
        for line in client.out.splitlines(keepends=True):
            words = line.split()
            if not line.endswith("\n"):
                continue
            if words[0] == "S":
                begun[words[2]] = (words[1], float(words[3]))
            elif words[0] == "E":
                if words[4] != "0" and servers_end:
                    continue
                key, begin = begun.pop(words[2])
                assert words[4] == "0", line
                keys.setdefault(key, []).append(Operation(True, (number, int(words[2])), begin, float(words[3])))
            else:
                value = None if words[2] == "-" else (int(words[2]), int(words[3]))
                keys.setdefault(words[1], []).append(Operation(False, value, float(words[4]), float(words[5])))
        for of, (key, begin) in begun.items():
            keys.setdefault(key, []).append(Operation(True, (number, int(of)), begin, INFINITE))
    return keys


def check(found: dict[str, list[Operation]], keys: int, at_least: int) -> None:
    assert len(found) == keys
    assert sum(len(each) for each in found.values()) > at_least
    for key, history in found.items():
        assert violation(history) is None, (key, violation(history))
