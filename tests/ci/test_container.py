# SPDX-License-Identifier: Apache-2.0
"""The files of the container image (deploy/container): all that the programs need, and little."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")).resolve()
LIMIT_S = 60
COMPRESSED_MAX = 60_000_000


def run(*words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image") / "root"
    done = run(ROOT / "deploy" / "container" / "collect", BUILD, folder)
    assert done.returncode == 0, done.stdout.decode()
    return folder


def test_the_files_are_few_and_small(image: Path) -> None:
    packed = subprocess.run(["tar", "-C", image, "-cz", "."], stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    assert len(packed.stdout) < COMPRESSED_MAX
    assert not list(image.rglob("*.a")) and not (image / "usr/bin/sh").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["verbena", "self-test", "--no-speed", "--limit", "50"], b"RDMA programs run here"),
        (["verbena", "run", "--", "ibv_devinfo"], b"hca_id:\tvb_"),
        *(([program, "--help"], b"Usage") for program in ("kv_server", "echo_server", "kv_client", "rc_client")),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_a_program_runs_without_any_other_file(image: Path, words: list[str], expected: bytes) -> None:
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if run(*inside, "true").returncode != 0:
        pytest.skip("no user namespaces here")
    done = run(*inside, f"--root={image}", f"/usr/bin/{words[0]}", *words[1:])
    assert done.returncode == 0 and expected in done.stdout, done.stdout.decode()
