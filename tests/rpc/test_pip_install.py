"""The Python client, installed by pip. tests/install has programs in C++."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))


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
        yield server.stdout.readline().split()[-1]
        server.stdin.close()


def test_the_python_client_works_after_pip_install(tmp_path: Path) -> None:
    """Install without a network: its dependencies are Debian packages."""
    source, elsewhere = tmp_path / "source", tmp_path / "elsewhere"
    shutil.copytree(ROOT / "python", source)  # pip builds where the sources are
    elsewhere.mkdir()
    python = tmp_path / "venv" / "bin" / "python"
    install = (
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--no-cache-dir",
        source,
    )
    for command in ((sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv"), (python, *install)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(source)
    program = """
import sys
import verbena_rpc

with verbena_rpc.Client("127.0.0.1", int(sys.argv[1])) as client:
    print(verbena_rpc.__file__, client.call("echo", "hello"))
"""
    with serving(os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}) as port:
        command = [python, "-I", "-c", program, port]
        done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    file, answer = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path / "venv") and answer == "hello"
