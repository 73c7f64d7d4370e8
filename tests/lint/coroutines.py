#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""coroutines.py [FILE...]: find statements with co_await that GCC 12 compiles wrongly.

GCC 12 destroys some temporaries twice if their statement contains co_await (GCC bug 99576; the
rule stands in lib/async/task.h): those made by aggregate initialization, closures that capture by
value, and class objects chosen by `?:`. This check reads tokens and knows no types, so it refuses
every such shape in a statement with co_await, also where the type has no destructor today:

  - braces, as in call({.name = n}), Options{} or `Pair pair{co_await next()}`
  - Aggregate(a, b), if the files define Aggregate as a struct without a constructor
  - a lambda that captures by value; [&], [&name] and [this] pass
  - `?:`, unless both results are literals
  - a default argument with braces, in a function that returns a Task or a Lazy; std:: types pass

Give the object a name in a statement of its own. It cannot see a default argument or a macro that
makes such an object elsewhere. Without arguments, every C++ file that git knows in lib, bench,
tools, examples and tests is checked. Prints FILE:LINE: TEXT; exits with 0 if there is nothing to
print, 1 otherwise, 2 after a wrong command line.

Example: tests/lint/coroutines.py lib/rpc/*.cc
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from objections import Objection, report, tracked_files

FOLDERS = ["lib", "bench", "tools", "examples", "tests"]

TOKEN = re.compile(
    r"(?P<skip>\s+|\\\n|//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r'|(?P<literal>(?:u8|[uUL])?(?:R"(?P<raw>[^(\s\\]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'))'
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<mark>->|::|&&|\|\||[-+*/%^&|<>=!]=|.)",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
CLOSING = {"(": ")", "[": "]", "{": "}"}

CONTROL = {"if", "for", "while", "switch", "catch"}
TYPE_HEADS = {"struct", "class", "union", "enum", "namespace", "extern"}
# Tokens that may stand between a function's parameters, or a label, and the brace of a body.
BEFORE_BODY = {":", "const", "noexcept", "override", "final", "&", "&&"}
BEFORE_LAMBDA = {"return", "co_return", "co_await", "co_yield", "case", "throw", "else", "do"}
AFTER_CAPTURES = {"(", "{", "<", "->", "mutable", "noexcept", "constexpr", "static"}
TASKS = {"Task", "Lazy"}

ADVICE = "GCC 12 may destroy it twice; name it in a statement of its own"


@dataclass
class Node:
    """One token, or a bracket with the tokens inside of it."""

    text: str
    line: int
    kind: str  # literal, number, word, mark, or group
    items: Nodes = field(default_factory=list)

    def opens(self, bracket: str) -> bool:
        return self.kind == "group" and self.text == bracket

    def word(self, *texts: str) -> bool:
        return self.kind == "word" and self.text in texts


Nodes = list[Node]


def parse(source: str) -> Nodes:
    """Return the tokens as a tree of brackets, without comments, directives and attributes."""
    source = DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), source)
    root = Node("", 1, "group")
    open_groups = [root]
    line = 1
    for match in TOKEN.finditer(source):
        text = match[0]
        kind = "literal" if match["literal"] else str(match.lastgroup)
        if kind == "mark" and text in CLOSING:
            group = Node(text, line, "group")
            open_groups[-1].items.append(group)
            open_groups.append(group)
        elif kind == "mark" and text in CLOSING.values():
            if len(open_groups) > 1:
                closed = open_groups.pop()
                if closed.opens("[") and len(closed.items) == 1 and closed.items[0].opens("["):
                    open_groups[-1].items.pop()  # [[attribute]]
        elif kind != "skip":
            open_groups[-1].items.append(Node(text, line, kind))
        line += text.count("\n")
    return root.items


def lambda_body(nodes: Nodes, at: int) -> int | None:
    """Return where the body of the lambda with these captures is; None if it is no lambda."""
    if not nodes[at].opens("[") or at + 1 == len(nodes) or nodes[at + 1].text not in AFTER_CAPTURES:
        return None
    if at > 0:
        before = nodes[at - 1]
        subscript = before.kind in ("literal", "number") or before.opens("(") or before.opens("[")
        if subscript or (before.kind == "word" and before.text not in BEFORE_LAMBDA):
            return None
    angles = 0
    for index in range(at + 1, len(nodes)):
        node = nodes[index]
        if node.opens("{"):
            return index
        if node.kind == "mark":
            angles += (node.text == "<") - (node.text == ">")
            if node.text == ";" or (node.text == "," and angles <= 0):
                return None
    return None


def split(nodes: Nodes, mark: str) -> Iterator[Nodes]:
    """Yield the parts between the marks; a comma within <> counts as one, too."""
    part: Nodes = []
    for node in nodes:
        if node.kind == "mark" and node.text == mark:
            yield part
            part = []
        else:
            part.append(node)
    yield part


class Checker:
    """Checks one file. `aggregates` are names of structs without a constructor."""

    def __init__(self, aggregates: set[str]) -> None:
        self.aggregates = aggregates
        self.found: list[Objection] = []

    def block(self, nodes: Nodes) -> None:
        """Check the statements or declarations between two braces, or of a whole file."""
        statement: Nodes = []
        at = 0
        while at < len(nodes):
            node = nodes[at]
            if (body := lambda_body(nodes, at)) is not None:
                statement += nodes[at : body + 1]
                at = body + 1
                continue
            at += 1
            if node.word("else", "do", "try") or (node.kind == "mark" and node.text == ";"):
                self.statement(statement)
                statement = []
            elif node.word(*CONTROL):
                self.statement(statement)
                statement = []
                if at < len(nodes) and nodes[at].word("constexpr"):
                    at += 1
                if at < len(nodes) and nodes[at].opens("("):
                    for part in split(nodes[at].items, ";"):
                        self.statement(part)
                    at += 1
            elif node.opens("{") and self.opens_body(statement):
                self.statement(statement)
                statement = []
                self.block(node.items)
            else:
                statement.append(node)
        self.statement(statement)

    def opens_body(self, before: Nodes) -> bool:
        """Whether a brace after these tokens opens a body, and does not initialize an object."""
        if not before:
            return True
        last = before[-1]
        if last.opens("(") or last.opens("{") or last.text in BEFORE_BODY:
            return True
        if any(node.word(*TYPE_HEADS) for node in before):
            return True
        names = [node.text for node in before]
        return "->" in names and "=" not in names and not self.awaits(before)  # auto f() -> Type {

    def statement(self, nodes: Nodes) -> None:
        """Check one full expression or declaration, and the bodies of the lambdas inside of it."""
        if self.awaits(nodes):
            self.shapes(nodes)
        self.defaults(nodes)
        self.lambda_bodies(nodes)

    def awaits(self, nodes: Nodes) -> bool:
        """Whether co_await stands here, not only within the body of a lambda."""
        at = 0
        while at < len(nodes):
            node = nodes[at]
            if node.word("co_await") or (node.kind == "group" and self.awaits(node.items)):
                return True
            body = lambda_body(nodes, at)
            at = at + 1 if body is None else body + 1
        return False

    def lambda_bodies(self, nodes: Nodes) -> None:
        at = 0
        while at < len(nodes):
            if nodes[at].kind == "group":
                self.lambda_bodies(nodes[at].items)
            body = lambda_body(nodes, at)
            if body is not None:
                self.block(nodes[body].items)
            at = at + 1 if body is None else body + 1

    def shapes(self, nodes: Nodes) -> None:
        """Object to each shape that breaks in this part of a statement with co_await."""
        at = 0
        while at < len(nodes):
            node = nodes[at]
            if (body := lambda_body(nodes, at)) is not None:
                self.captures(node)
                at = body + 1
                continue
            if node.opens("{"):
                self.object_to(node, "braces in a statement with co_await")
            elif node.kind == "mark" and node.text == "?" and not self.literals(nodes[at + 1 :]):
                self.object_to(node, "?: in a statement with co_await")
            elif node.kind == "word" and node.text in self.aggregates and self.is_made(nodes, at):
                self.object_to(node, f"the aggregate {node.text}(...) in a statement with co_await")
            if node.kind == "group":
                self.shapes(node.items)
            at += 1

    def captures(self, node: Node) -> None:
        for capture in split(node.items, ","):
            if capture and capture[0].text not in ("&", "&&", "this"):
                self.object_to(node, f"a lambda that captures {capture[0].text} by value in a statement with co_await")
                return

    def literals(self, after: Nodes) -> bool:
        """Whether both results of the `?` before these tokens are literals."""
        kinds = ["literal" if node.kind in ("literal", "number") else node.text for node in after[:4]]
        return kinds[:3] == ["literal", ":", "literal"] and (len(kinds) == 3 or kinds[3] in (",", ")", ";"))

    def is_made(self, nodes: Nodes, at: int) -> bool:
        """Whether nodes[at] names a type that two or more values in parentheses initialize."""
        if at + 1 == len(nodes) or not nodes[at + 1].opens("(") or (at > 0 and nodes[at - 1].text in (".", "->")):
            return False
        return any(node.kind == "mark" and node.text == "," for node in nodes[at + 1].items)

    def defaults(self, nodes: Nodes) -> None:
        """Object to braces in the default arguments of a function that returns a task."""
        for at in range(len(nodes) - 1):
            returns_task = nodes[at].word(*TASKS) and nodes[at + 1].text == "<"
            parameters = next((node for node in nodes[at:] if node.kind == "group"), None) if returns_task else None
            if parameters is None or not parameters.opens("("):
                continue
            for parameter in split(parameters.items, ","):
                names = [node.text for node in parameter]
                if "=" not in names or (names[0] == "const" and names[1:3] == ["std", "::"]) or names[0] == "std":
                    continue
                for node in parameter[names.index("=") :]:
                    if node.opens("{"):
                        self.object_to(node, "braces in a default argument of a coroutine")

    def object_to(self, node: Node, what: str) -> None:
        objection = Objection(node.line, f"{what}: {ADVICE}")
        if objection not in self.found:
            self.found.append(objection)


def aggregates_of(nodes: Nodes) -> tuple[set[str], set[str]]:
    """Return the names of structs without, and of those with, a constructor of their own."""
    without: set[str] = set()
    having: set[str] = set()
    for at, node in enumerate(nodes):
        if node.kind == "group":
            inner = aggregates_of(node.items)
            without |= inner[0]
            having |= inner[1]
        if not node.word("struct", "class") or at + 1 == len(nodes) or nodes[at + 1].kind != "word":
            continue
        name = nodes[at + 1].text
        body = next((other for other in nodes[at + 2 :] if other.opens("{") or other.text in (";", "(", ">")), None)
        if body is None or not body.opens("{"):
            continue
        constructs = node.text == "class" or any(
            first.word(name) and second.opens("(") for first, second in zip(body.items, body.items[1:], strict=False)
        )
        (having if constructs else without).add(name)
    return without, having


def check_sources(sources: dict[Path, str]) -> dict[Path, list[Objection]]:
    """Return the objections to each file."""
    trees = {path: parse(source) for path, source in sources.items()}
    without: set[str] = set()
    having: set[str] = set()
    for nodes in trees.values():
        some = aggregates_of(nodes)
        without |= some[0]
        having |= some[1]
    found = {}
    for path, nodes in trees.items():
        checker = Checker(without - having)
        checker.block(nodes)
        found[path] = sorted(checker.found, key=lambda objection: objection.number)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="coroutines.py [FILE...]"
    )
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    files = parser.parse_args(arguments).files
    for path in files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    if not files:
        files = [path for path in tracked_files(*FOLDERS) if path.suffix in (".cc", ".h") and path.is_file()]
    checked = check_sources({path: path.read_text() for path in files})
    found = ((path, objection) for path, objections in checked.items() for objection in objections)
    return report("coroutines", "lib/async/task.h has the rule", found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
