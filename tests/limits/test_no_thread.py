# SPDX-License-Identifier: Apache-2.0
"""Where the system allows a user few threads or none, our programs end with a line that says so."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("VERBENA_BUILD", Path(__file__).resolve().parents[2] / "build"))
LIMIT_S = 30
NO_THREAD = "the system allows no further thread"
SERVERS = {
    "echo_server": ["--insecure", "--port", "0", "--engine", "epoll"],
    "kv_server": ["--insecure", "--port", "0", "--listen", "127.0.0.1"],
    "performance_test": ["--insecure", "-c", "4", "-n", "1"],
}


def run_limited(tmp_path: Path, name: str, threads: int) -> subprocess.CompletedProcess[str]:
    """A limit of threads holds for unprivileged users only, so the program runs as one."""
    if os.geteuid() != 0:
        pytest.skip("only root can change to a user that has no processes")
    for file in (name, "libverbena-nic.so"):
        shutil.copy(BUILD / file, tmp_path)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    user = str(61300 + threads)
    return subprocess.run(
        [
            *["timeout", "5", "prlimit", f"--nproc={threads}"],
            *["setpriv", "--reuid", user, "--regid", user, "--clear-groups"],
            *["env", "VERBENA_DEVICES=vb_lo", f"LD_LIBRARY_PATH={tmp_path}", str(tmp_path / name), *SERVERS[name]],
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("name", SERVERS)
def test_a_program_that_gets_no_thread_fails_with_a_line(tmp_path: Path, name: str) -> None:
    for threads in (1, 2):
        done = run_limited(tmp_path, name, threads)
        assert done.returncode == 1 and done.stderr.startswith((f"{name}: ", "verbena: ")), done


@pytest.mark.parametrize("name", ["echo_server", "kv_server"])
def test_the_limit_is_named_if_the_nic_got_its_thread_and_the_server_none(tmp_path: Path, name: str) -> None:
    done = run_limited(tmp_path, name, 2)
    assert NO_THREAD in done.stderr, done
