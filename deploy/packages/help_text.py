# SPDX-License-Identifier: Apache-2.0
"""Reads the help texts of programs: the one source of man pages and completion.

The C++ programs print the format of CLI11, `verbena report` that of Python's argparse.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTIONS = {
    "Options:": "options",
    "options:": "options",
    "Positionals:": "positionals",
    "positional arguments:": "positionals",
    "Subcommands:": "subcommands",
}
ENTRY = re.compile(r"^  (?P<head>\S.*?)(?:\s{2,}(?P<text>\S.*))?$")
# The parser puts a description into this column, behind a single space if the head is long.
COLUMN = 30
NAME = re.compile(r"(?:^|,\s*)(-{1,2}[A-Za-z][\w-]*)")
CHOICES = re.compile(r"\{([^}]*)\}")
# A flag that another name switches off: "--coalesce,--no-coalesce{false}".
OFF = re.compile(r"(--[\w-]+)\{[^}]*\}")


@dataclass
class Entry:
    """An option, an argument or a subcommand, as one line of a help text has it."""

    head: str  # "-h,--help", "--log LEVEL:{error,warn}", "files"
    text: str = ""
    group: str = ""  # the heading of a group of options that has a name of its own

    @property
    def names(self) -> list[str]:
        return NAME.findall(re.sub(r"(-[\w-]+) [^,]*(?=, -)", r"\1", self.head))

    @property
    def value(self) -> str:
        """The description of the option's value; empty if it takes none."""
        rest = re.sub(r"\b(Needs|Excludes):.*", "", self.head)
        for name in self.names:
            rest = rest.replace(name, "", 1)
        rest = re.sub(r"\b[A-Z]+:(?=[A-Z]|\{)", "", rest)  # "UINT:UINT in [1 - 4]", "TEXT:{a,b}"
        return rest.strip(" ,").partition(",")[0] if "{" not in rest else rest.strip(" ,")

    @property
    def is_optional(self) -> bool:
        """Whether the value may be left out, and otherwise follows a "=": "--trace [=FILE]"."""
        return self.value.startswith("[=")

    @property
    def choices(self) -> list[str]:
        found = CHOICES.search(self.head)
        return [each.partition("->")[0].strip() for each in found[1].split(",")] if found else []


def group_of(line: str, following: str) -> str:
    """Return the name of a group of options, if this line is its heading."""
    return line[:-1] if re.match(r"\S.*:$", line) and re.match(r"  -", following) else ""


@dataclass
class Command:
    """A program or a subcommand: `words` is what a user types, ("verbena", "bench", "kv")."""

    words: tuple[str, ...]
    description: str = ""
    usage: str = ""
    options: list[Entry] = field(default_factory=list)
    positionals: list[Entry] = field(default_factory=list)
    subcommands: list[Entry] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)
    children: list[Command] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "-".join(self.words)

    def family(self) -> Iterator[Command]:
        """This command, and all subcommands below it."""
        yield self
        for child in self.children:
            yield from child.family()


def parse(words: tuple[str, ...], text: str) -> Command:
    """Read one help text."""
    command = Command(words)
    section: list[Entry] | None = None
    group = ""
    description: list[str] = []
    in_footer = False
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in SECTIONS and not in_footer:
            section, group = getattr(command, SECTIONS[line]), ""
        elif section is not None and not in_footer and (named := group_of(line, following)):
            section, group = command.options, named
        elif re.match(r"[Uu]sage: ", line):
            command.usage = line.partition(": ")[2]
        elif section is None:
            if command.usage and line.startswith(" "):  # argparse continues a long usage line
                command.usage += " " + line.strip()
            else:
                description.append(line)
        elif in_footer or (line and not line.startswith(" ")):
            in_footer = True
            command.footer.append(line)
        elif line.startswith(" " * 20) and section:
            section[-1].text = f"{section[-1].text} {line.strip()}".strip()
        elif entry := ENTRY.match(line):
            head, description_of = entry["head"], entry["text"] or ""
            is_beside = line[COLUMN - 1 : COLUMN] == " " and not following.startswith(" " * COLUMN)
            if not description_of and is_beside:
                head, description_of = line[:COLUMN].strip(), line[COLUMN:].strip()
            section.append(Entry(OFF.sub(r"\1", head), description_of, group))
    # "Run a program: verbena run [OPTIONS] -- PROGRAM" has the usage that the parser does not know.
    whole = " ".join(line.strip() for line in description if line.strip())
    command.description, _, usage = whole.partition(f": {' '.join(words)} ")
    command.usage = usage or command.usage
    return command


def read(program: Path, words: tuple[str, ...] = ()) -> Command:
    """Run a program with --help, and so for each of its subcommands."""
    words = words or (program.name,)
    done = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True, timeout=60, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} --help has ended with {done.returncode}:\n{done.stderr}")
    command = parse(words, done.stdout)
    if not command.usage or not command.options:
        raise ValueError(f"{' '.join(words)} --help has no usage line or no options:\n{done.stdout}")
    command.children = [read(program, (*words, entry.head.split()[0])) for entry in command.subcommands]
    for child, entry in zip(command.children, command.subcommands, strict=True):
        child.description = child.description or entry.text
    return command
