"""A program of somebody else: built against what `cmake --install` has put down, with nothing of this tree in sight."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))


def test_an_example_builds_against_an_installation_and_runs(tmp_path: Path) -> None:
    prefix = tmp_path / "usr"
    command = ["cmake", "--install", BUILD, "--component", "rpc", "--prefix", prefix]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (pc,) = prefix.rglob("verbena-rpc.pc")
    environment = os.environ | {"PKG_CONFIG_PATH": str(pc.parent), "XDG_CONFIG_HOME": str(tmp_path)}
    words = ["pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "verbena-rpc"]
    flags = subprocess.run(words, capture_output=True, text=True, timeout=20, env=environment, check=True).stdout.split()
    for name in ("client.cc", "functions.h"):
        shutil.copy(ROOT / "examples" / "rpc" / name, tmp_path)
    # -O0: what is asked is whether it builds.
    command = ["g++", "-O0", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "client.cc", *flags, "-o", "client"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    with subprocess.Popen(
        [BUILD / "bench" / "rpc_server", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        port = server.stdout.readline().split()[-1]
        done = subprocess.run([tmp_path / "client", port], capture_output=True, text=True, timeout=30, env=environment, check=False)
        server.stdin.close()
    assert done.returncode == 0 and done.stdout.startswith("echo: hello rdma"), done.stdout + done.stderr
