# SPDX-License-Identifier: Apache-2.0
"""Reads the output of tests/kv/history.c and checks that it is linearizable."""

import sys
from pathlib import Path

import pytest
from programs import ROOT, Program, Programs
from test_kv import build_c

sys.path.append(str(ROOT / "tests" / "kv"))
from linearizable import INFINITE, Operation, name_absences, violation

__all__ = ["INFINITE", "KV_DISK", "Operation", "build_history", "check", "histories", "name_absences", "violation"]

KV_DISK = "-12"


def build_history(factory: pytest.TempPathFactory) -> Path:
    return build_c(Programs(factory.mktemp("history")), ROOT / "tests" / "kv" / "history.c")


def histories(clients: dict[int, Program], servers_end: bool = False) -> dict[str, list[Operation]]:
    """Return the operations on each key; a DEL is a write of an absence of its own.

    The last line of a killed client may be incomplete. With `servers_end`, a SET or DEL may have
    failed because its server ended; it is unknown whether such an operation took effect, so it has
    no end.
    """
    keys: dict[str, list[Operation]] = {}
    for number, client in clients.items():
        begun: dict[str, tuple[str, object, float]] = {}
        for line in client.out.splitlines(keepends=True):
            words = line.split()
            if not line.endswith("\n") or words[0] == "retries":
                continue
            if words[0] in "SD":
                written = ("absent" if words[0] == "D" else number, int(words[2]))
                begun[words[2]] = (words[1], written, float(words[3]))
            elif words[0] == "E":
                if words[4] == KV_DISK:
                    del begun[words[2]]  # it changed nothing, so no read may return its value
                    continue
                if words[4] != "0" and servers_end:
                    continue
                key, written, begin = begun.pop(words[2])
                assert words[4] == "0", line
                keys.setdefault(key, []).append(Operation(True, written, begin, float(words[3])))
            else:
                value = None if words[2] == "-" else (int(words[2]), int(words[3]))
                keys.setdefault(words[1], []).append(Operation(False, value, float(words[4]), float(words[5])))
        for key, written, begin in begun.values():
            keys.setdefault(key, []).append(Operation(True, written, begin, INFINITE))
    return keys


def check(found: dict[str, list[Operation]], keys: int, at_least: int) -> None:
    """Assert that the history of each key is linearizable, and has enough operations.

    `keys` is the number of keys that all clients set. At least one GET must have found a key
    missing that a DEL had removed.
    """
    assert sum(key.startswith("key") for key in found) == keys
    assert sum(len(each) for each in found.values()) > at_least
    absences = 0
    for key, history in found.items():
        named = name_absences(history) if key.startswith("own") else history
        assert violation(named) is None, (key, violation(named))
        found_by_reads = [each.value for each in named if not each.is_write]
        absences += sum(isinstance(value, tuple) and value[0] == "absent" for value in found_by_reads)
    assert absences > 0
