#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""same_code.py BASE: does the working tree compile to the same code as the commit BASE?

For commits that change comments or format and nothing else. Three steps, each only for what the
one before could not settle:

1. Source: a file whose tokens without comments are those of BASE needs no look; Python files are
   compared as syntax trees without docstrings.
2. Preprocessor: the translation units that a remaining C++ file reaches are preprocessed on both
   sides. Equal tokens compile to equal code.
3. Disassembly: the remaining units are compiled on both sides without debug information, and each
   function's instructions and relocations are compared. Line numbers inside check() are data, not
   instructions, and do not count.

With --all, steps 1 and 2 are left out and every unit of the build is compiled and compared
(26 minutes of processor time the first time).

Examples:
  tests/lint/same_code.py HEAD~1
  tests/lint/same_code.py --source HEAD nic/engine   # step 1 alone, in a second
Exit status: 0 same code, 1 different (the functions are listed), 2 usage.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build-same"
C_LIKE = (".c", ".cc", ".h", ".S")
HASH_LIKE = (".sh", ".cmake", ".toml")
# Programs that CMake writes sources from must have run before anything compiles.
GENERATORS = ("verbena_commit",)
FLAGS = "-O2 -DNDEBUG -g0"
SAME_LINE = ("-P", "-D__LINE__=0", "-Wno-builtin-macro-redefined")


def run(*command: str | Path, cwd: Path = ROOT, text_in: str | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, input=text_in, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(str(part) for part in command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


# Step 1: the source without its comments.


# `>>` is left out, because it closes two templates as `> >` does; shifts stay distinct enough.
_TOKEN = re.compile(
    r'(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<character>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')"
    r"|(?P<word>[\w'.]+|[\w]+)"
    r"|(?P<operator><=>|<<=|->\*|\.\.\.|\+\+|--|&&|\|\||->|::|<<|[-+*/%&|^!=<>]=|##|\S)",
    re.DOTALL,
)


def squeezed(code: str) -> str:
    """The tokens of C or C++, with string literals that stand side by side joined."""
    tokens: list[str] = []
    string_before = False
    for match in _TOKEN.finditer(code):
        if string_before and match["string"]:
            tokens[-1] = tokens[-1][:-1] + match["string"][1:]
            continue
        string_before = match["string"] is not None
        tokens.append(match[0])
    return "\n".join(tokens)


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        holder = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if holder and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def bare(name: str, source: str) -> str:
    """The source of the file `name` without what a compiler or interpreter ignores."""
    path = Path(name)
    if path.suffix in C_LIKE:
        return squeezed(run("gcc", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-", text_in=source))
    if path.suffix == ".py" or source.startswith("#!/usr/bin/python3"):
        return _without_docstrings(source)
    if path.suffix in HASH_LIKE or path.name in ("Makefile", "CMakeLists.txt") or source.startswith("#!"):
        return "\n".join(line for line in source.split("\n") if not re.match(r"\s*(#(?!!)|$)", line))
    return source


def changed_files(base: str, below: list[str]) -> list[str]:
    listed = run("git", "diff", "--name-only", "--no-renames", base, "--", *below).splitlines()
    listed += run("git", "ls-files", "--others", "--exclude-standard", "--", *below).splitlines()
    return sorted(set(listed))


def differs(base: str, name: str) -> bool:
    if name.endswith(".md"):
        return False
    try:
        before = run("git", "show", f"{base}:{name}")
        after = (ROOT / name).read_text()
    except (RuntimeError, OSError, UnicodeDecodeError):
        return True
    return bare(name, before) != bare(name, after)


# Steps 2 and 3: both trees as their compile commands see them.


@dataclass(frozen=True)
class Unit:
    """One translation unit: its source relative to the root, and how it is compiled."""

    name: str
    directory: Path
    command: tuple[str, ...]

    def compiler(self, *options: str) -> list[str]:
        """The command without its own output and mode."""
        kept: list[str] = []
        parts = iter(self.command)
        for part in parts:
            if part == "-o":
                next(parts)
            elif part not in ("-c", "-g"):
                kept.append(part)
        return [*kept, *options]

    def tokens(self) -> str:
        return squeezed(run(*self.compiler("-E", *SAME_LINE), cwd=self.directory))

    def functions(self) -> dict[str, str]:
        with tempfile.NamedTemporaryFile(suffix=".o") as out:
            run(*self.compiler("-g0", "-c", "-o", out.name), cwd=self.directory)
            return functions_of(run("objdump", "-dr", "--no-show-raw-insn", "-C", "-w", out.name))


def functions_of(disassembly: str) -> dict[str, str]:
    """Each function's instructions, without addresses: jumps are relative to the function."""
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in disassembly.split("\n"):
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            body = found.setdefault(head[1], [])
        elif line.startswith(" ") or line.startswith("\t"):
            body.append(re.sub(r"^\s*[0-9a-f]+:\s*", "", re.sub(r"\b[0-9a-f]+ (?=<)", "", line)))
    return {name: "\n".join(lines) for name, lines in found.items()}


def configure(source: Path, build: Path) -> dict[str, Unit]:
    maps = f"-ffile-prefix-map={source}=. -ffile-prefix-map={build}=build"
    options = [f"-DCMAKE_{language}_FLAGS_RELWITHDEBINFO={FLAGS} {maps}" for language in ("C", "CXX")]
    options.append("-DCMAKE_UNITY_BUILD=OFF")
    build.mkdir(parents=True, exist_ok=True)
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *options)
    targets = run("ninja", "-C", build, "-t", "targets", "all")
    generated = [line.split(":")[0] for line in targets.splitlines() if re.search(r"\.(pb|capnp)\.h: ", line)]
    run("cmake", "--build", build, "--target", *GENERATORS, *generated)
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.is_relative_to(build):  # generated, so the same if its generator's input is
            continue
        name = str(file.relative_to(source) if file.is_relative_to(source) else file.name)
        directory = Path(entry["directory"])
        units.setdefault(name, Unit(name, directory, tuple(shlex.split(entry["command"]))))
    return units


def includes_of(file: Path) -> set[str]:
    """The project's own files that this one includes directly, relative to the root."""
    found = set()
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', file.read_text(errors="replace"), re.MULTILINE):
        for folder in (ROOT, ROOT / "lib" / "include", file.parent):
            if (folder / name).is_file():
                found.add(os.path.relpath(folder / name, ROOT))
                break
    return found


def reached(units: dict[str, Unit], changed: set[str]) -> Iterator[str]:
    """Names of the units that are among the changed files or include one, directly or not."""
    known: dict[str, set[str]] = {}

    def closure(name: str) -> set[str]:
        todo, seen = [name], {name}
        while todo:
            file = todo.pop()
            if file not in known:
                known[file] = includes_of(ROOT / file) if (ROOT / file).is_file() else set()
            todo += known[file] - seen
            seen |= known[file]
        return seen

    for name in units:
        if closure(name) & changed:
            yield name


def progress(done: int, all_of_them: int, what: str) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == all_of_them else ""
        print(f"\r{what}: {done} of {all_of_them}", end=end, file=sys.stderr, flush=True)


def compare(before: dict[str, Unit], now: dict[str, Unit], names: list[str], by_tokens: bool) -> list[str]:
    """Return a line for each function that differs."""

    def one(name: str) -> list[str]:
        if name not in before or name not in now:
            return [f"{name}: only in {'the working tree' if name in now else 'the base'}"]
        if by_tokens and before[name].tokens() == now[name].tokens():
            return []
        old, new = before[name].functions(), now[name].functions()
        return [
            f"{name}: {function}"
            for function in sorted(old.keys() | new.keys())
            if old.get(function) != new.get(function)
        ]

    lines: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for count, found in enumerate(pool.map(one, names), 1):
            lines += found
            progress(count, len(names), "units compared")
    return lines


def remove_tree(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    run("git", "worktree", "prune")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("below", metavar="PATH", nargs="*", help="compare only files below these")
    parser.add_argument("--source", action="store_true", help="step 1 alone: compare tokens, compile nothing")
    parser.add_argument("--all", action="store_true", help="disassemble every unit of the build")
    options = parser.parse_args(arguments)
    try:
        base = run("git", "rev-parse", "--verify", "--quiet", f"{options.base}^{{commit}}").strip()
    except RuntimeError:
        print(f"same_code.py: there is no commit '{options.base}'", file=sys.stderr)
        return 2

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        changed = changed_files(base, options.below)
        files = [
            name for name, other in zip(changed, pool.map(lambda n: differs(base, n), changed), strict=True) if other
        ]
    if options.source or not (files or options.all):
        for name in files:
            print(f"{name}: differs in more than comments and format")
        if not files:
            print(f"same code: {len(changed)} files differ from {options.base} in comments or format only")
        return 1 if files else 0

    other = [name for name in files if Path(name).suffix not in C_LIKE]
    # At a fixed path, so that the base's build folder serves the next run too.
    tree = BUILD / "tree"
    remove_tree(tree)  # a killed run may have left it
    run("git", "worktree", "add", "--detach", tree, base)
    try:
        before = configure(tree, BUILD / "base")
        now = configure(ROOT, BUILD / "now")
        names = sorted(before.keys() | now.keys())
        if not options.all:
            names = sorted(set(reached(now, set(files))) | (before.keys() ^ now.keys()))
        lines = compare(before, now, names, by_tokens=not options.all)
    finally:
        remove_tree(tree)
    for line in [f"{name}: differs" for name in other] + lines:
        print(line)
    if not lines and not other:
        print(f"same code: {len(names)} units compile to the functions of {options.base}")
    return 1 if lines or other else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
