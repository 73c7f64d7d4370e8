"""Programs outside of this tree, built against an installation by `cmake --install` and pip."""

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


def test_an_example_builds_against_an_installation_and_runs(tmp_path: Path) -> None:
    prefix = tmp_path / "usr"
    command = ["cmake", "--install", BUILD, "--component", "rpc", "--prefix", prefix]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (pc,) = prefix.rglob("verbena-rpc.pc")
    environment = os.environ | {"PKG_CONFIG_PATH": str(pc.parent), "XDG_CONFIG_HOME": str(tmp_path)}
    words = ["pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "verbena-rpc"]
    flags = subprocess.run(
        words, capture_output=True, text=True, timeout=20, env=environment, check=True
    ).stdout.split()
    for name in ("client.cc", "functions.h"):
        shutil.copy(ROOT / "examples" / "rpc" / name, tmp_path)
    # -O0, because the test only asks whether it builds and runs.
    command = ["g++", "-O0", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "client.cc", *flags, "-o", "client"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    with serving(environment) as port:
        done = subprocess.run(
            [tmp_path / "client", port], capture_output=True, text=True, timeout=30, env=environment, check=False
        )
    assert done.returncode == 0 and done.stdout.startswith("echo: hello rdma"), done.stdout + done.stderr


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
