# SPDX-License-Identifier: Apache-2.0
"""A private key that other users may read is refused, by every program that loads one."""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# ruff: noqa: F401, F811
from library import Programs, started

pytest.importorskip("OpenSSL")

from verbena_rpc.tls import Tls, read_key_file

COMMANDS = {
    "echo_server": ["echo_server", "--listen", "127.0.0.1", "--port", "0"],
    "performance_test": ["performance_test", "-c", "1", "-n", "1"],
    "kv_server": ["kv_server", "--listen", "127.0.0.1", "--port", "0"],
    "kv_client": ["kv_client", "127.0.0.1:1"],
}
# The group may read a file of root's, because that is how a host gives one key to several services.
FORBIDDEN = (0o644, 0o604, 0o660, 0o666) if os.geteuid() == 0 else (0o644, 0o604, 0o660, 0o640)


def files(programs: Programs) -> tuple[list[str], Path]:
    made = programs.run("verbena", "certs", "--dir", "certs", "--host", "127.0.0.1")
    assert made.status == 0, made
    folder = programs.folder / "certs"
    return ["--ca", f"{folder}/ca.pem", "--cert", f"{folder}/server.pem", "--key", f"{folder}/server.key"], folder


@pytest.mark.parametrize("program", COMMANDS)
def test_a_program_refuses_a_key_that_others_may_read(started: Programs, program: str) -> None:
    options, folder = files(started)
    for mode in FORBIDDEN:
        (folder / "server.key").chmod(mode)
        ran = started.run(*COMMANDS[program], *options)
        assert ran.status != 0, ran
        assert f"server.key has mode {mode:04o}, so other users may know it" in ran.err + ran.out, ran


def test_the_identity_of_a_python_client_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "verbena").mkdir(mode=0o700)
    identity = tmp_path / "verbena" / "identity.pem"
    identity.write_text("a key")
    identity.chmod(0o640)
    with pytest.raises(PermissionError, match="mode 0640"):
        Tls().context()


@pytest.mark.parametrize("mode", FORBIDDEN)
def test_the_python_client_refuses_a_key_that_others_may_read(
    started: Programs,
    mode: int,
) -> None:
    _, folder = files(started)
    (folder / "client.key").chmod(mode)
    tls = Tls(ca=f"{folder}/ca.pem", cert=f"{folder}/client.pem", key=f"{folder}/client.key")
    with pytest.raises(PermissionError, match=f"mode {mode:04o}"):
        tls.context()
    (folder / "client.key").chmod(0o600)
    tls.context()


def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    key = tmp_path / "key"
    key.write_text("a key")
    key.chmod(0o600)
    assert read_key_file(key) == b"a key"
    shutil.chown(key, 65534)
    with pytest.raises(PermissionError, match="belongs to user 65534"):
        read_key_file(key)
