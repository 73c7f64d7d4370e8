# SPDX-License-Identifier: Apache-2.0
"""Renders docs/programs.md from the table and the programs' versions.

The page has no time and no figure, so that it changes only when the table or a version does.
"""

import re
from collections.abc import Iterable

from entry import PLACES, PLAIN, Entry, Known, Program

HEAD = """# Programs

This page lists programs that other people wrote and that we run unmodified on the NIC, as `verbena run -- PROGRAM`.
`make ecosystem` runs all of them and writes this page; do not edit it. The table is `tests/ecosystem/programs.py` and
the files that it imports; the quick ones also run in `make test`.

*One host* means that both processes are in one network namespace. *Two hosts* means that each is in its own, joined by
a virtual wire. *Killed* means that one side was killed (SIGKILL) in the middle, the other one ended by itself or went
on as it does on hardware, nothing was left behind, and the next run succeeded.
"""

Statuses = tuple[str, ...]


def unescape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


class Notes:
    """The reasons of known failures, in the order of their first use."""

    def __init__(self, known: list[Known]) -> None:
        self._known = known
        self.used: list[str] = []

    def mark(self, entry: Entry, place: str, check: str) -> str:
        known = next((each for each in self._known if each.concerns(entry.name, place, check)), None)
        if known is None:
            return "runs" if check == PLAIN else "yes"
        if known.why not in self.used:
            self.used.append(known.why)
        return f"{'sometimes' if known.may_run else 'no'} ({self.used.index(known.why) + 1})"


def statuses(entry: Entry, notes: Notes) -> Statuses:
    """One cell for each place, and one for the kill checks."""
    cells = [notes.mark(entry, place, PLAIN) if place in entry.places else "" for place in PLACES]
    killed = sorted({notes.mark(entry, place, check) for place in entry.places for check in entry.checks()[1:]})
    return (*cells, ", ".join(killed))


def rows(entries: Iterable[Entry], notes: Notes) -> list[tuple[str, list[str], Statuses]]:
    """Entries of a group that have the same result share a row."""
    found: list[tuple[str, list[str], Statuses]] = []
    for entry in entries:
        group, _, case = entry.name.partition(": ")
        status = statuses(entry, notes)
        for row in found:
            if row[0] == group and row[2] == status:
                row[1].append(case)
                break
        else:
            found.append((group, [case], status))
    return found


def render(programs: dict[str, Program], entries: list[Entry], known: list[Known], versions: dict[str, str]) -> str:
    notes = Notes(known)
    lines = [HEAD]
    for key, program in programs.items():
        mine = [entry for entry in entries if entry.program == key]
        lines += [f"## {program.name} {versions[key]}", "", f"From {program.origin}.", ""]
        lines += ["| What runs | one host | two hosts | killed |", "|---|---|---|---|"]
        for group, cases, status in rows(mine, notes):
            what = unescape(f"{group}: {'; '.join(case or 'without options' for case in cases)}")
            lines.append(f"| {what} | {' | '.join(status)} |")
        lines.append("")
    if notes.used:
        lines += ["## What does not run, and why", ""]
        lines += [f"{number}. {why[0].upper()}{why[1:]}." for number, why in enumerate(notes.used, 1)]
        lines.append("")
    return "\n".join(lines)


def versions_in(page: str, programs: dict[str, Program]) -> dict[str, str]:
    """Read the versions that a page names; the sections are in the order of `programs`."""
    headings = re.findall(r"^## .* (\S+)\n\nFrom ", page, re.MULTILINE)
    return dict(zip(programs, headings, strict=False))
