# SPDX-License-Identifier: Apache-2.0
"""The wheels of wheels.txt in a virtual environment, and the table's own programs, compiled.

Owns: a folder below the build folder. It is made once, and again when wheels.txt has changed.
"""

import re
import shutil
import subprocess
from pathlib import Path

from entry import Entry
from pairs import BUILD

HERE = Path(__file__).resolve().parent
LIST = HERE / "wheels.txt"
PYTHON = "/usr/bin/python3"

# The table's own programs, each with its source and its compiler.
PROGRAMS = (
    ("mpi_check", "mpi_check.c", "mpicc.openmpi"),
    ("mpich_check", "mpi_check.c", "mpicc.mpich"),
    ("tcp_check", "tcp_check.c", "cc"),
)


class CannotInstall(Exception):
    """pip could not install the wheels; the text is its output."""


class Wheels:
    """Paths below build/ecosystem; install() fills them."""

    def __init__(self) -> None:
        self.folder = BUILD / "ecosystem"
        self.built = self.folder / "built"
        self._environment = self.folder / "venv"
        self.python = self._environment / "bin" / "python3"
        self.newest_ucx = self.folder / "ucx"
        self._stamp = self.folder / "installed.txt"

    @property
    def packages(self) -> Path:
        return next(self._environment.glob("lib/python3*/site-packages"), self._environment / "missing")

    def versions(self) -> dict[str, str]:
        return dict(re.findall(r"^([\w-]+)==(\S+)$", LIST.read_text(), re.MULTILINE))

    def need(self, entry: Entry) -> None:
        """Install what the entry uses."""
        texts = entry.client + entry.server
        if any(word in texts for word in ("{python}", "{wheels}", "{ucx}")):
            self.install()
        if "{built}" in texts:
            self.compile()

    def install(self) -> None:
        if self._stamp.is_file() and self._stamp.read_text() == LIST.read_text():
            return
        self.folder.mkdir(exist_ok=True)
        run([PYTHON, "-m", "venv", "--clear", str(self._environment)])
        pip = [str(self.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run([*pip, "install", "--no-deps", "--requirement", str(LIST)])
        for program in self.packages.glob("libucx/bin/*"):
            program.chmod(0o755)
        self._gather_ucx()
        self._stamp.write_text(LIST.read_text())

    def _gather_ucx(self) -> None:
        """Give the nixl wheel's libraries the names under which UCX's programs look for them."""
        libraries = self.packages / "nixl_cu12.libs"
        modules = self.newest_ucx / "ucx"
        modules.mkdir(parents=True, exist_ok=True)
        for old in [*self.newest_ucx.glob("*.so*"), *modules.iterdir()]:
            old.unlink()
        for library in libraries.glob("lib*.so*"):
            plain = re.fullmatch(r"(libuc[pstm])-[0-9a-f]+(\.so\.0)\.0\.0", library.name)
            (self.newest_ucx / (plain[1] + plain[2] if plain else library.name)).symlink_to(library)
        for name in ("ib", "cma"):
            (modules / f"libuct_{name}.so.0").symlink_to(libraries / "ucx" / f"libuct_{name}.so.0.0.0")

    def compile(self) -> None:
        """Compile the C programs of this folder."""
        self.built.mkdir(parents=True, exist_ok=True)
        for name, source_name, compiler in PROGRAMS:
            source, program = HERE / source_name, self.built / name
            if shutil.which(compiler) is None:
                continue  # the check that needs it says so
            if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
                run([compiler, "-O1", "-Wall", "-o", str(program), str(source)])


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise CannotInstall(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
