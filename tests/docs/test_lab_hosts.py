# SPDX-License-Identifier: Apache-2.0
"""examples/labs/two_hosts names mistakes in a sentence, and captures into an old file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_pages import ROOT, namespaces

TWO_HOSTS = ROOT / "examples" / "labs" / "two_hosts"
MISTAKE, WRONG_USAGE = 1, 2
LIMIT_S = 60
# These servers end when the script ends them. The clients end at once.
SERVER, CLIENT = "sleep 60", "true"

needs_namespaces = pytest.mark.skipif(not namespaces(), reason="no network namespaces here: unshare is refused")


def run(*words: object, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(TWO_HOSTS), *map(str, words)],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def said(status: int, *words: object, path: str = os.environ["PATH"]) -> str:
    """Return the only line that the script prints. It must end with this status."""
    done = run(*words, path=path)
    assert done.returncode == status and done.stdout == "", done
    assert done.stderr.startswith("two_hosts: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("loss", ["abc", "", "-1", "200", "100.1", "2%", "1e1"])
def test_a_loss_that_is_no_percentage_is_wrong_usage(tmp_path: Path, loss: str) -> None:
    """Some of these were taken as 0, so that the lab lost no packet."""
    line = said(WRONG_USAGE, loss, tmp_path / "file", SERVER, CLIENT)
    assert "LOSS is a percentage from 0 to 100" in line and f"'{loss}'" in line
    assert not (tmp_path / "file").exists()


def test_the_usage_has_no_line_that_is_for_developers() -> None:
    done = run("2")
    assert done.returncode == WRONG_USAGE
    assert done.stderr.startswith("two_hosts LOSS FILE SERVER CLIENT: ")
    assert done.stderr.endswith("needs iproute2, iptables and tcpdump.\n"), done.stderr


def test_a_missing_tcpdump_is_named(tmp_path: Path) -> None:
    """The script waited for the file of a tcpdump that could not start."""
    for program in Path("/usr/bin").iterdir():
        if program.name != "tcpdump":
            (tmp_path / program.name).symlink_to(program)
    if shutil.which("tcpdump", path="/usr/sbin:/sbin"):
        pytest.fail("tcpdump is in a folder that the script always searches: change this test")
    line = said(MISTAKE, 0, tmp_path / "file.pcap", SERVER, CLIENT, path=str(tmp_path))
    assert "there is no program tcpdump here: install" in line


@needs_namespaces
@pytest.mark.parametrize(("file", "reason"), [("missing/file", "irectory"), ("/dev/null", "is no regular file")])
def test_a_file_that_cannot_be_written_ends_the_script(tmp_path: Path, file: str, reason: str) -> None:
    line = said(MISTAKE, 0, tmp_path / file, SERVER, CLIENT)
    assert f"FILE '{tmp_path / file}'" in line and reason in line


@needs_namespaces
def test_a_tcpdump_that_ends_ends_the_script_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "tcpdump").write_text("#!/bin/sh\necho 'tcpdump: no such device exists' >&2\nexit 1\n")
    (tmp_path / "tcpdump").chmod(0o755)
    line = said(MISTAKE, 0, tmp_path / "file", SERVER, CLIENT, path=f"{tmp_path}:{os.environ['PATH']}")
    assert "tcpdump has ended: tcpdump: no such device exists" in line


@needs_namespaces
def test_a_second_run_captures_into_the_file_of_the_first(tmp_path: Path) -> None:
    """The old file was taken as the sign that tcpdump had begun to capture."""
    file = tmp_path / "file.pcap"
    file.write_bytes(b"not a capture\n" * 1000)
    # The client sends one datagram as soon as it may; the file has its header and that packet.
    client = "bash -c 'echo packet >/dev/udp/10.9.0.1/4791'"
    done = run(100, file, SERVER, client)
    assert done.returncode == 0, done
    data = file.read_bytes()
    assert data[:4] in {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4"}, data[:32]
    assert b"packet\n" in data
