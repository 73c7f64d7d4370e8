# SPDX-License-Identifier: Apache-2.0
"""Writes man pages from help texts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from help_text import Command, Entry

ENVIRONMENT = (
    "The variables that the programs and the NIC read are listed in docs/environment.md of the sources, "
    "which the package installs as /usr/share/doc/verbena/environment.md, and so the other pages of docs."
)


def escaped(text: str) -> str:
    """Return a text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def entries(title: str, found: list[Entry]) -> list[str]:
    lines = [f".SH {title}"]
    group = ""
    for entry in found:
        if entry.group != group:
            group = entry.group
            lines.append(f".SS {escaped(group)}")
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in entry.names) or f"\\fB{escaped(entry.head)}\\fR"
        value = f" \\fI{escaped(entry.value)}\\fR" if entry.names and entry.value else ""
        lines += [".TP", names + value, escaped(entry.text or "No description.")]
    return lines


@dataclass
class Footer:
    """The lines below the options, by the section of the page that they belong to."""

    introduction: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    exit_status: list[str] = field(default_factory=list)


def sorted_footer(lines: list[str]) -> Footer:
    """Sort the lines. Those about exit codes may be apart; text after the examples stays there."""
    footer = Footer()
    section = previous = footer.introduction
    for line in lines:
        if re.match(r"examples?:$", line, re.IGNORECASE):
            section = footer.examples
            continue
        if "exit code" in line.lower() and not line.startswith(" "):
            previous = previous if section is footer.exit_status else section
            section = footer.exit_status
            line = re.sub(r"^exit codes: ?", "", line, flags=re.IGNORECASE)
        elif section is footer.exit_status and not re.match(r" |\d", line):
            section = previous  # a list of codes goes on by a number, or indented
        section.append(line)
    return footer


def paragraphs(lines: list[str]) -> list[str]:
    """Return text that is filled, except for the indented lines."""
    made: list[str] = []
    in_example = False
    for line in lines:
        if line.startswith(" "):
            made += [".nf"] * (not in_example) + [escaped(line.rstrip())]
            in_example = True
        elif line:
            made += [".fi", ".PP"] * in_example + [escaped(line)]
            in_example = False
    return made + [".fi"] * in_example


def one_line(description: str) -> str:
    """Return a description for the NAME of a page: without markup, and not as a sentence."""
    text = description.replace("`", "").rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def page(command: Command, version: str) -> str:
    """Return the man page of one command in roff."""
    program = command.words[0]
    others = [f".BR {escaped(child.name)} (1)" for child in command.children]
    if len(command.words) > 1:
        others.append(f".BR {escaped('-'.join(command.words[:-1]))} (1)")
    elif program != "verbena":
        others.append(".BR verbena (1)")
    footer = sorted_footer(command.footer)
    usage = command.usage.removeprefix(" ".join(command.words)).strip()
    lines = [
        f'.TH "{escaped(command.name.upper())}" 1 "" "Verbena {version}" "Verbena"',
        ".SH NAME",
        f"{escaped(command.name)} \\- {escaped(one_line(command.description))}",
        ".SH SYNOPSIS",
        f".B {escaped(' '.join(command.words))}",
        escaped(usage),
        ".SH DESCRIPTION",
        escaped(command.description),
    ]
    if introduction := paragraphs(footer.introduction):
        lines += [".PP", *introduction]
    if command.positionals:
        lines += entries("ARGUMENTS", command.positionals)
    if command.subcommands:
        lines += entries("COMMANDS", command.subcommands)
    lines += entries("OPTIONS", command.options)
    for title, section in (("EXAMPLES", footer.examples), ("EXIT STATUS", footer.exit_status)):
        if text := paragraphs(section):
            lines += [f".SH {title}", *text]
    lines += [".SH ENVIRONMENT", escaped(ENVIRONMENT)]
    if others:
        lines += [".SH SEE ALSO", " ,\n".join(others)]
    return "\n".join(line for line in lines if line) + "\n"
