# SPDX-License-Identifier: Apache-2.0
"""The Python client of the store, verbena_kv, on the built library."""

import os
import re
import sys
from pathlib import Path

import pytest
from programs import BUILD, ROOT, Programs
from test_kv import serve

ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(ROOT / "python"),
    "PYTHONDONTWRITEBYTECODE": "1",
    "VERBENA_KV_LIBRARY": str(BUILD / "libverbena-kv.so"),
}


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_every_call_of_the_python_client(programs: Programs, transport: str) -> None:
    _, where = serve(programs)
    script = ROOT / "tests" / "kv" / "python_client.py"
    ran = programs.run(sys.executable, "-W", "error", script, where, transport, env=ENVIRONMENT)
    assert (ran.status, ran.out, ran.err) == (0, "all good\n", ""), ran


def test_each_function_of_the_library_is_declared_before_it_is_called() -> None:
    """Without its types, ctypes cuts a handle down to 32 bits."""
    package = ROOT / "python" / "verbena_kv"
    called = {name for file in package.glob("*.py") for name in re.findall(r"\.(kv_\w+)\(", file.read_text())}
    declared = set(re.findall(r'^    "(kv_\w+)": \(', (package / "library.py").read_text(), re.MULTILINE))
    assert called and called <= declared, called - declared


def test_a_missing_library_is_an_error_that_says_what_to_install(programs: Programs, tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"VERBENA_KV_LIBRARY": str(tmp_path / "none.so")}
    program = "import verbena_kv; verbena_kv.Store('127.0.0.1')"
    ran = programs.run(sys.executable, "-c", program, env=environment)
    assert ran.status == 1 and "none.so" in ran.err and "libverbena-kv0, or set VERBENA_KV_LIBRARY" in ran.err, ran


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("AsyncStore()", "TypeError"),
        ("AsyncStore(5)", "TypeError: servers must be a str"),
        ("AsyncStore('127.0.0.1', 'tcp')", "TypeError: settings must be Settings(...), not 'tcp'"),
        ("AsyncStore('127.0.0.1').watch('key')", "RuntimeError: the store is not connected: use `async with"),
        ("asyncio.run(AsyncStore('127.0.0.1').get('key'))", "RuntimeError: the store is not connected: use `async"),
        ("asyncio.run(AsyncStore('127.0.0.1').set('key', b''))", "RuntimeError: the store is not connected"),
        ("Store(5)", 'TypeError: servers must be a str such as "10.0.0.1" or "a:7472,b:7472", not 5'),
        ("Store(None)", "TypeError: servers must be a str"),
        ("Store('127.0.0.1', {'timeout': 5})", "TypeError: settings must be Settings(...)"),
        ("Settings(timeout='5')", "TypeError: Settings: timeout must be a number of seconds or None, not '5'"),
        ("Settings(transport=None)", "TypeError: Settings: transport must be str, not None"),
        ("Settings(lanes='2')", "TypeError: Settings: lanes must be int, not '2'"),
        ("Settings(lanes=0)", "ValueError: Settings: lanes must be 1 to 64, not 0"),
        ("Settings(lanes=65)", "ValueError: Settings: lanes must be 1 to 64, not 65"),
        ("Settings(lanes=-1)", "ValueError: Settings: lanes must be 1 to 64, not -1"),
        ("Settings(timeout=0)", "ValueError: Settings: timeout must be above 0 and at most 2147483.647 s, not 0"),
        ("Settings(timeout=-1.5)", "ValueError: Settings: timeout must be above 0"),
        ("Settings(timeout=2147483.648)", "ValueError: Settings: timeout must be above 0"),
        ("Settings(timeout=10**400)", "ValueError: Settings: timeout must be above 0"),
        ("Settings(timeout=float('nan'))", "ValueError: Settings: timeout must be above 0"),
        ("Settings(timeout=float('inf'))", "ValueError: Settings: timeout must be above 0"),
        (r"Settings(transport='tcp\0rdma')", r"ValueError: Settings: transport has a NUL byte: 'tcp\x00rdma'"),
        (r"Settings(ca='ca.pem\0')", "ValueError: Settings: ca has a NUL byte"),
        (r"Store('127.0.0.1\0:7472')", "ValueError: servers has a NUL byte"),
        (r"AsyncStore('127.0.0.1\0:7472')", "ValueError: servers has a NUL byte"),
    ],
)
def test_a_wrong_argument_is_an_error_and_no_crash(programs: Programs, line: str, error: str) -> None:
    """AsyncStore("host") took the text for a handle, and the process ended with SIGSEGV.

    A timeout of 4294968 s became 704 ms, and one of -1 s became 1 ms; a text ended at its NUL byte.
    """
    program = f"import asyncio; from verbena_kv import AsyncStore, Settings, Store; {line}"
    ran = programs.run(sys.executable, "-c", program, env=ENVIRONMENT)
    assert ran.status == 1 and f"\n{error}" in ran.err, ran


def test_an_error_is_unpickled_and_a_pool_of_processes_does_not_hang(programs: Programs) -> None:
    """Its result thread died of a TypeError, and the pool waited for ever."""
    ran = programs.run(sys.executable, "-W", "error", ROOT / "tests" / "kv" / "python_pickled.py", env=ENVIRONMENT)
    assert (ran.status, ran.out, ran.err) == (0, "all good\n", ""), ran


def test_closing_while_other_threads_call_or_watch_is_no_crash(programs: Programs) -> None:
    """kv_close freed the handle under the calls of other threads, which ended with SIGSEGV."""
    _, where = serve(programs)
    script = ROOT / "tests" / "kv" / "python_closing.py"
    ran = programs.run(sys.executable, "-W", "error", script, where, env=ENVIRONMENT)
    assert (ran.status, ran.out, ran.err) == (0, "all good\n", ""), ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_a_child_that_drops_a_value_of_its_parent_does_not_crash(programs: Programs, transport: str) -> None:
    """Its finalizer released memory that the child has not inherited."""
    _, where = serve(programs)
    script = ROOT / "tests" / "kv" / "python_forked.py"
    ran = programs.run(sys.executable, script, where, transport, env=ENVIRONMENT)
    assert (ran.status, ran.out, ran.err) == (0, "all good\n", ""), ran


def test_a_store_that_is_dropped_does_not_keep_its_connections(programs: Programs) -> None:
    _, where = serve(programs)
    ran = programs.run(sys.executable, ROOT / "tests" / "kv" / "python_dropped.py", where, env=ENVIRONMENT)
    assert (ran.status, ran.out, ran.err) == (0, "all good\n", ""), ran


@pytest.mark.parametrize(
    "line",
    [
        "pass",
        "cycle = [store]; cycle.append(cycle); del store",
        "value = store.get('key'); watcher = store.watch('key')",
        "threading.Thread(target=lambda: list(store.watch('key')), daemon=True).start()",
        "sys.keep = store",
        "opened = asyncio.run(AsyncStore.open(sys.argv[1]))",
    ],
)
def test_a_store_that_is_open_at_the_end_of_the_program_is_no_crash(programs: Programs, line: str) -> None:
    _, where = serve(programs)
    program = (
        "import asyncio, sys, threading; from verbena_kv import AsyncStore, Store; "
        f"store = Store(sys.argv[1]); store.set('key', b'v' * 100_000); {line}"
    )
    ran = programs.run(sys.executable, "-W", "default", "-c", program, where, env=ENVIRONMENT)
    assert ran.status == 0 and "Exception" not in ran.err and "Error" not in ran.err, ran
    if line == "pass":
        assert ran.err.count("ResourceWarning: unclosed <verbena_kv.store.Store object") == 1, ran


def test_an_installed_module_finds_the_library_of_its_prefix(programs: Programs, tmp_path: Path) -> None:
    """It looked in its own folder alone, so a prefix had to be in the loader's path."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "VERBENA_KV_LIBRARY"}
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        prefix = tmp_path / folder.replace("/", "_")
        package = prefix / "lib" / "python3" / "dist-packages" / "verbena_kv"
        package.mkdir(parents=True)
        library = prefix / folder / "libverbena-kv.so.0"
        library.parent.mkdir(exist_ok=True)
        library.touch()
        program = f"from verbena_kv.library import *; print(found_from(Path({str(package)!r})))"
        ran = programs.run(sys.executable, "-c", program, env=environment)
        assert ran.out == f"{library}\n", ran


def test_the_example_runs(programs: Programs) -> None:
    _, where = serve(programs)
    ran = programs.run(ROOT / "examples" / "kv" / "batch.py", where, env=ENVIRONMENT)
    assert ran.status == 0, ran
    assert ran.out == "hello\n64 of 65 keys\nthe key has another version; nothing has changed\n499500 bytes\n", ran
