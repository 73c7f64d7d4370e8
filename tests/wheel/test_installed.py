# SPDX-License-Identifier: Apache-2.0
"""The installed wheel at work: the report, the client of RPC, and what they say if something is
missing. No test can import a file of the source tree, because Python is isolated from it (-I).
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BUILD, HERE, ROOT, build_wheel, make_environment, run

PUBLISHED = ROOT / "bench" / "published" / "rc_vs_ud.csv"


@contextlib.contextmanager
def serving(environment: dict[str, str]) -> Iterator[str]:
    """Run the example's server, and yield its port."""
    with subprocess.Popen(
        [BUILD / "bench" / "rpc_server", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as server:
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.stdin.close()


CALL = """
import sys
import verbena_rpc

with verbena_rpc.Client("127.0.0.1", int(sys.argv[1])) as client:
    print(verbena_rpc.__file__, client.call("echo", "hello"))
"""


def check_call(programs: Path, user: dict[str, str], elsewhere: Path) -> None:
    with serving(user) as port:
        said = run(programs / "python", "-I", "-c", CALL, port, env=user, cwd=elsewhere)
    file, answer = said.split()
    assert Path(file).is_relative_to(programs.parent) and answer == "hello"


def test_no_folder_of_the_source_tree_is_searched(programs: Path, tmp_path: Path) -> None:
    said = run(programs / "python", "-I", "-c", "import sys, verbena; print(verbena.__file__, *sys.path)", cwd=tmp_path)
    found, *searched = (Path(word) for word in said.split())
    assert found.is_relative_to(programs.parent)
    assert not [path for path in searched if path.is_relative_to(ROOT)]


def test_its_version_is_that_of_the_tree(programs: Path, tmp_path: Path) -> None:
    said = run(programs / "python", "-I", "-c", "import verbena; print(verbena.__version__)", cwd=tmp_path)
    assert said == (ROOT / "VERSION").read_text()


def test_a_call_is_answered(programs: Path, user: dict[str, str], tmp_path: Path) -> None:
    check_call(programs, user, tmp_path)


def test_a_call_is_answered_after_pip_install_of_the_folder(user: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "python", source)  # pip builds where the sources are
    (tmp_path / "elsewhere").mkdir()
    programs = make_environment(tmp_path / "venv", source, "--system-site-packages")
    shutil.rmtree(source)
    check_call(programs, user, tmp_path / "elsewhere")


USE_THE_STORE = """
import sys
import verbena_kv

with verbena_kv.Store(sys.argv[1]) as store:
    store.set("key", b"a value")
    print(verbena_kv.__file__, bytes(store.get("key")).decode())
"""


@contextlib.contextmanager
def storing(environment: dict[str, str]) -> Iterator[str]:
    """Run a server of the store, and yield its address."""
    with subprocess.Popen(
        [BUILD / "kv_server", "--listen", "127.0.0.1", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:
        try:
            yield server.stdout.readline().split("listening at ")[1].split(",")[0]
        finally:
            server.terminate()


def test_a_wheel_with_libraries_uses_the_store_without_any_other_part(user: dict[str, str], tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "wheel", "--libraries", BUILD)
    programs = make_environment(tmp_path / "venv", wheel)
    with storing(user) as where:
        said = run(programs / "python", "-I", "-c", USE_THE_STORE, where, env=user, cwd=tmp_path)
        file, value = said.rstrip("\n").split(" ", 1)
        assert Path(file).is_relative_to(programs.parent) and value == "a value"


def test_the_wheel_uses_the_library_that_the_user_names(
    bare_programs: Path, user: dict[str, str], tmp_path: Path
) -> None:
    program = "import verbena_kv; verbena_kv.Store('127.0.0.1')"
    said = run(bare_programs / "python", "-I", "-c", program, env=user, cwd=tmp_path, status=1)
    assert "libverbena-kv0, or set VERBENA_KV_LIBRARY" in said
    named = user | {"VERBENA_KV_LIBRARY": str(BUILD / "libverbena-kv.so")}
    with storing(user) as where:
        said = run(bare_programs / "python", "-I", "-c", USE_THE_STORE, where, env=named, cwd=tmp_path)
    assert said.endswith(" a value\n")


def test_the_page_is_that_of_verbena_report(programs: Path, user: dict[str, str], tmp_path: Path) -> None:
    shutil.copy(PUBLISHED, tmp_path / "mine.csv")
    run(programs / "verbena-report", "mine.csv", "-o", "wheel.html", env=user, cwd=tmp_path)
    assert "<figure" in (page := (tmp_path / "wheel.html").read_text()) and "Chart.js v" in page
    assert list(tmp_path.glob("*.svg"))
    tree = user | {"VERBENA_REPORT": str(ROOT / "report"), "PYTHONDONTWRITEBYTECODE": "1"}
    run(BUILD / "verbena", "report", "mine.csv", "-o", "tree.html", env=tree, cwd=tmp_path)
    assert page == (tmp_path / "tree.html").read_text()


def test_chart_js_is_that_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    program = (
        "import sys, verbena.report\nsys.path.insert(0, str(verbena.report.SHARE))\n"
        "from report import page\nprint(next(path for path in page.LIBRARIES if path.exists()))"
    )
    assert Path(run(programs / "python", "-I", "-c", program, cwd=tmp_path).strip()).is_relative_to(programs.parent)


def test_the_report_names_the_command_that_was_called(programs: Path, user: dict[str, str], tmp_path: Path) -> None:
    assert run(programs / "verbena-report", "--help", env=user, cwd=tmp_path).startswith("usage: verbena-report ")
    said = run(programs / "verbena-report", "none.csv", "-o", "page.html", env=user, cwd=tmp_path, status=2)
    assert said.startswith("verbena-report: none.csv: ")


def test_without_the_program_verbena_the_error_says_what_to_install(
    programs: Path, user: dict[str, str], tmp_path: Path
) -> None:
    bare = user | {"VERBENA_PROGRAM": "", "PATH": str(tmp_path)}
    said = run(programs / "verbena-report", PUBLISHED, "-o", "page.html", env=bare, cwd=tmp_path, status=2)
    assert "cannot find the program `verbena`" in said and "Debian package verbena" in said


def test_a_program_without_its_library_is_an_error_that_says_what_to_install(
    programs: Path, user: dict[str, str], tmp_path: Path
) -> None:
    run("cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "nic")
    (tmp_path / "lib" / "libverbena-nic.so").unlink()
    alone = tmp_path / "bin" / "verbena"
    lonely = user | {"VERBENA_PROGRAM": str(alone)}
    said = run(programs / "verbena-report", PUBLISHED, "-o", "page.html", env=lonely, cwd=tmp_path, status=2)
    assert f"{alone}, which judges the rows, needs libverbena-nic.so: install Debian's package" in said


@pytest.fixture(scope="module")
def bare_programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel alone."""
    return make_environment(tmp_path_factory.mktemp("bare"), wheel)


def test_without_matplotlib_the_error_says_what_to_install(
    bare_programs: Path, user: dict[str, str], tmp_path: Path
) -> None:
    said = run(bare_programs / "verbena-report", PUBLISHED, "-o", "page.html", env=user, cwd=tmp_path, status=2)
    assert said == "verbena-report: needs jinja2 and matplotlib: pip install 'verbena[report]'\n"


def test_without_pyopenssl_the_error_says_what_to_install(bare_programs: Path, tmp_path: Path) -> None:
    # The package itself needs msgpack, which this environment does not have either.
    program = f"import sys; sys.path.append({str(tmp_path)!r}); import verbena_rpc.tls"
    (tmp_path / "msgpack").symlink_to("/usr/lib/python3/dist-packages/msgpack")
    said = run(bare_programs / "python", "-I", "-c", program, cwd=tmp_path, status=1)
    assert "ImportError: verbena_rpc.tls needs pyOpenSSL: pip install 'verbena[tls]'" in said


def test_a_strangers_program_passes_strict_type_checks(programs: Path, tmp_path: Path) -> None:
    for name in ("stranger.py", "wrong.py"):
        shutil.copy(HERE / "strangers" / name, tmp_path)
    check = ("/usr/bin/mypy", "--strict", "--cache-dir", tmp_path / "cache", "--python-executable", programs / "python")
    assert "Success" in run(*check, "stranger.py", cwd=tmp_path)
    said = run(*check, "wrong.py", cwd=tmp_path, status=1)
    marked = [n for n, line in enumerate((tmp_path / "wrong.py").read_text().splitlines(), 1) if "# wrong" in line]
    assert [int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line] == marked, said
