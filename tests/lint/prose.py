#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""prose.py [FILE...]: check comments, docstrings and documents against docs/glossary.md.

A comment ends at column 100 at the latest (a tab is four columns). No comment, docstring or
document uses a word that the glossary lists as retired, and no sentence in them begins with a
retired opening, unless it is a question. Without arguments, every file that git knows is checked.

Example: tests/lint/prose.py nic/engine/*.h
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from objections import ROOT, Objection, report, tracked_files

GLOSSARY = ROOT / "docs" / "glossary.md"
COLUMNS_MAX = 100
TAB = 4

C_LIKE = {".c", ".cc", ".h", ".S", ".proto"}
HASH_LIKE = {".sh", ".cmake", ".toml", ".yml", ".yaml"}
HASH_NAMES = {"Makefile", "CMakeLists.txt", "packages.txt", "expected_skips.txt"}


@dataclass(frozen=True)
class Line:
    """One line of prose. `column` is where it ends on the screen; 0 where width does not matter."""

    number: int
    text: str
    column: int


Block = list[Line]  # consecutive lines that read as one text


@dataclass(frozen=True)
class Rules:
    """The retired words and openings, each with the advice that the glossary gives."""

    words: list[tuple[re.Pattern[str], str]]
    openings: re.Pattern[str]


def read_rules(glossary: str) -> Rules:
    """Read the two tables of retired language; each row is `| word, word | advice |`."""
    rows: dict[str, list[tuple[list[str], str]]] = {"words": [], "openings": []}
    section = None
    for line in glossary.splitlines():
        if line.startswith("#"):
            lower = line.lower()
            section = next((name for name in rows if "retired" in lower and name in lower), None)
        elif section and line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            terms = [term.strip() for term in re.findall(r"`([^`]+)`", cells[0])]
            if terms:
                rows[section].append((terms, cells[-1]))
    if not rows["words"] or not rows["openings"]:
        raise ValueError("the glossary has no table of retired words, or none of retired openings")
    words = [
        (re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, terms))})(?![\w-])", re.IGNORECASE), advice)
        for terms, advice in rows["words"]
    ]
    openings = "|".join(re.escape(term) for terms, _ in rows["openings"] for term in terms)
    return Rules(words, re.compile(rf"(?:{openings})(?![\w-])", re.IGNORECASE))


def _width(line: str) -> int:
    return len(line.expandtabs(TAB))


def c_comments(source: str) -> Iterator[tuple[int, int, str]]:
    """Yield (line number, offset in the line, text) of each line of each comment."""
    token = re.compile(
        r'R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
        r"|(?P<line>//(?:\\\n|[^\n])*)"
        r"|(?P<block>/\*.*?\*/)",
        re.DOTALL,
    )
    for match in token.finditer(source):
        comment = match["line"] or match["block"]
        if not comment:
            continue
        number = source.count("\n", 0, match.start()) + 1
        offset = match.start() - (source.rfind("\n", 0, match.start()) + 1)
        for index, text in enumerate(comment.split("\n")):
            yield number + index, offset if index == 0 else 0, text


def hash_comments(source: str) -> Iterator[tuple[int, int, str]]:
    """Yield the comments of a language whose comments begin with #, outside of quotes."""
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("#!"):
            continue
        for match in re.finditer(r"(?:^|(?<=\s))#(?=\s)", line):
            before = line[: match.start()]
            if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
                yield number, match.start(), line[match.start() :]
                break


def _python_blocks(source: str) -> Iterator[Block]:
    lines = source.split("\n")
    comments = [
        (token.start[0], token.start[1], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("#!")
    ]
    yield from _joined(lines, comments)
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, holders) or ast.get_docstring(node) is None:
            continue
        text = node.body[0]
        block: Block = []
        for number in range(text.lineno, (text.end_lineno or text.lineno) + 1):
            line = lines[number - 1]
            words = line.strip().removeprefix("r").replace('"""', "")
            if words:
                block.append(Line(number, words, _width(line)))
            elif block:
                yield block
                block = []
        if block:
            yield block


def _joined(lines: list[str], comments: Iterable[tuple[int, int, str]]) -> Iterator[Block]:
    """Join comments on neighbouring lines; a comment behind code is its own block."""
    block: Block = []
    indent = ""
    for number, offset, raw in comments:
        before = lines[number - 1][:offset]
        text = re.sub(r"^(//[/!<]*|/\*+|\*+/|\*(?=\s|$)|#+)\s?", "", raw.strip()).removesuffix("*/").strip()
        if text.startswith("SPDX-"):
            text = ""  # the licence, which is no part of the text below it
        alone = not before.strip()
        line = Line(number, text, _width(lines[number - 1]))
        if block and (not alone or number != block[-1].number + 1 or before.expandtabs(TAB) != indent or not text):
            yield block
            block = []
        if text:
            block.append(line)
            indent = before.expandtabs(TAB)
            if not alone:
                indent = "\0"  # nothing continues a comment behind code
    if block:
        yield block


def _markdown_blocks(source: str) -> Iterator[Block]:
    block: Block = []
    fenced = False
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
            text = ""
        heading = text.startswith(("#", "|"))
        item = re.match(r"([-*+]|\d+\.)\s", text)
        if block and (fenced or not text or heading or item):
            yield block
            block = []
        if fenced or not text:
            continue
        if heading:
            yield [Line(number, "# " + text, 0)]  # its words count, its opening does not
        else:
            block.append(Line(number, text, 0))
    if block:
        yield block


def blocks_of(path: Path, source: str) -> Iterator[Block]:
    """Yield the prose of a file, paragraph by paragraph; nothing for a kind of file without any."""
    lines = source.split("\n")
    if path.suffix in C_LIKE:
        yield from _joined(lines, c_comments(source))
    elif path.suffix == ".py" or source.startswith("#!/usr/bin/python3"):
        yield from _python_blocks(source)
    elif path.suffix in HASH_LIKE or path.name in HASH_NAMES or re.match(r"#!.*\b(ba)?sh\b", source):
        yield from _joined(lines, hash_comments(source))
    elif path.suffix == ".md":
        yield from _markdown_blocks(source)


def _without_code(text: str) -> str:
    """Drop `code` and links' targets, which are names and not prose."""
    text = re.sub(r"`[^`]*`", "`", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def _openings(block: Block) -> Iterator[tuple[int, str]]:
    """Yield (line number, sentence) for each sentence of the block."""
    joined = ""
    starts: list[tuple[int, int]] = []
    for line in block:
        starts.append((len(joined), line.number))
        joined += _without_code(line.text) + " "
    for match in re.finditer(r"(?:(?<=^)|(?<=[.!?]\s))\s*(?:(?:[-*+]|\d+\.)\s+|\*\*)*(.+?(?:[.!?](?=\s)|$))", joined):
        at = match.start(1)
        yield max(number for start, number in starts if start <= at), match[1].strip()


def check_text(path: Path, source: str, rules: Rules) -> list[Objection]:
    """Return all objections to one file."""
    found = []
    wide = set()
    for block in blocks_of(path, source):
        for line in block:
            if line.column > COLUMNS_MAX and line.number not in wide and "://" not in line.text:
                wide.add(line.number)
                found.append(Objection(line.number, f"the comment ends at column {line.column}, beyond {COLUMNS_MAX}"))
            for pattern, advice in rules.words:
                for match in pattern.finditer(_without_code(line.text)):
                    found.append(Objection(line.number, f'retired word "{match[0]}"; write: {advice}'))
        for number, sentence in _openings(block):
            if (match := rules.openings.match(sentence)) and not sentence.endswith("?"):
                found.append(Objection(number, f'a sentence begins with "{match[0]}"; name its subject first'))
    return sorted(found, key=lambda objection: objection.number)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="prose.py [FILE...]"
    )
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    files = parser.parse_args(arguments).files
    for path in files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    rules = read_rules(GLOSSARY.read_text())

    def found() -> Iterator[tuple[Path, Objection]]:
        for path in files or tracked_files():
            if path.resolve() == GLOSSARY or path.name == "LICENSE" or not path.is_file():
                continue
            try:
                source = path.read_text()
            except UnicodeDecodeError:
                continue  # a picture
            for objection in check_text(path, source, rules):
                yield path, objection

    return report("prose", "docs/glossary.md has the rules", found())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
