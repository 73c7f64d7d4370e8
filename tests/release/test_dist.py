# SPDX-License-Identifier: Apache-2.0
"""The source tarball of `make dist`. `make dist-test` builds all of it."""

import hashlib
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120
TIME = {"SOURCE_DATE_EPOCH": "1700000000"}

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this tree is a source tarball itself")


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(  # type: ignore[call-overload]
        words, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options
    )
    assert done.returncode == 0, f"$ {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Path(run(ROOT / "cmake" / "dist.sh", tmp_path_factory.mktemp("dist"), env=os.environ | TIME).strip())
    assert made.name == f"verbena-{run('git', 'show', 'HEAD:VERSION', cwd=ROOT).strip()}.tar.xz"
    return made


def test_its_files_are_those_of_the_commit(tarball: Path) -> None:
    """A file has the bytes of the commit, and is executable if it is so there."""
    listed = run("git", "ls-tree", "-r", "-z", "HEAD", cwd=ROOT).rstrip("\0").split("\0")
    wanted = {name: tuple(about.split()) for about, name in (line.split("\t") for line in listed)}
    top = tarball.name.removesuffix(".tar.xz") + "/"
    found = {}
    with tarfile.open(tarball) as archive:
        for member in archive:
            name = member.name.removeprefix(top)
            assert member.name.startswith(top) or member.isdir()
            if member.issym():
                found[name] = ("120000", "blob", blob(member.linkname.encode()))
            elif member.isfile():
                mode = "100755" if member.mode & 0o100 else "100644"
                found[name] = (mode, "blob", blob(archive.extractfile(member).read()))
    # git writes the commit into this file.
    assert found.pop("cmake/commit") != wanted.pop("cmake/commit")
    assert found == wanted


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def test_it_names_no_user_and_one_time(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in archive}
        times = {member.mtime for member in archive}
    assert owners == {(0, 0, "", "")}
    assert times == {int(TIME["SOURCE_DATE_EPOCH"])}


def test_a_second_one_is_equal_byte_for_byte(tarball: Path, tmp_path: Path) -> None:
    """The mask of file modes, the locale and the time zone have no influence."""
    environment = os.environ | TIME | {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    second = run("sh", "-c", f"umask 077; exec {ROOT}/cmake/dist.sh {tmp_path}", env=environment)
    assert Path(second.strip()).read_bytes() == tarball.read_bytes()


def test_its_nic_is_configured_without_a_network_and_its_commit_is_known(tarball: Path, tmp_path: Path) -> None:
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path)
    tree = tmp_path / tarball.name.removesuffix(".tar.xz")
    isolated = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespaces here: unshare failed")
    run(*isolated, "cmake", "--preset", "nic", cwd=tree)
    header = tmp_path / "commit.h"
    run("cmake", "-D", f"ROOT={tree}", "-D", f"OUT={header}", "-P", tree / "bench" / "commit.cmake")
    commit = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    assert re.search(r'VERBENA_COMMIT "(.*)"', header.read_text())[1] == commit[:12]
