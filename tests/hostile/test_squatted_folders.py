# SPDX-License-Identifier: Apache-2.0
"""Another user makes the folders first in which this user's programs would share files."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from users import ALICE, BUILD, NIC, STRANGER, NamespacePair, two_hosts

SQUATTED = [f"/dev/shm/verbena-{ALICE}", f"/tmp/verbena-{ALICE}"]
# The machine's own folders stay as they are.
PREPARE = f"""
set -e
for i in /dev/shm /tmp; do mount -t tmpfs -o mode=1777 none $i; done
mkdir -m 700 /tmp/home && chown {ALICE} /tmp/home
setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups sh -c '{{squat}}'
exec setpriv --reuid {ALICE} --regid {ALICE} --clear-groups env -u XDG_RUNTIME_DIR -u XDG_CACHE_HOME "$@"
"""
AsAlice = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wire() -> Iterator[NamespacePair]:
    yield from two_hosts()


@pytest.fixture(params=["mkdir", "ln -s /tmp/home"], ids=["folders", "links"])
def as_alice(wire: NamespacePair, request: pytest.FixtureRequest) -> AsAlice:
    """Run a program as Alice, after the stranger has made her folders in /dev/shm and /tmp."""
    squat = " && ".join(f"{request.param} {folder}" for folder in SQUATTED)

    def run(*words: object, **variables: object) -> subprocess.CompletedProcess[str]:
        setting = [f"{name}={value}" for name, value in variables.items()]
        inside = ["unshare", "--mount", "sh", "-c", PREPARE.format(squat=squat), "sh", *setting, *map(str, words)]
        return subprocess.run(wire.inside(0, inside), capture_output=True, text=True, timeout=60, check=False)

    return run


def list_devices(as_alice: AsAlice, home: Path | str, **variables: object) -> subprocess.CompletedProcess[str]:
    return as_alice("ls", "/sys/class/infiniband", "/dev/infiniband", LD_PRELOAD=NIC, HOME=home, **variables)


def test_the_devices_are_seen_by_a_folder_in_the_users_home(as_alice: AsAlice) -> None:
    done = list_devices(as_alice, "/tmp/home")
    assert done.returncode == 0 and "vb_" in done.stdout and "uverbs" in done.stdout, done
    assert not done.stderr, "a program that works prints nothing"
    line = list_devices(as_alice, "/tmp/home", VERBENA_LOG="warn").stderr
    assert f"user id {STRANGER} has made {SQUATTED[0]}" in line and "/tmp/home/.cache/verbena" in line, line


def test_without_a_home_one_line_names_the_folder_and_its_owner(as_alice: AsAlice) -> None:
    done = list_devices(as_alice, "/nonexistent")
    assert done.returncode != 0, done
    ours = [line for line in done.stderr.splitlines() if line.startswith("verbena:")]
    assert len(ours) == 1, done
    assert f"user id {STRANGER} has made {SQUATTED[0]}" in ours[0] and "XDG_RUNTIME_DIR" in ours[0], done


def test_doctor_names_the_folder_and_its_owner(as_alice: AsAlice) -> None:
    for home, level in (("/tmp/home", "note"), ("/nonexistent", "problem")):
        done = as_alice(BUILD / "verbena", "doctor", "--json", HOME=home)
        findings = json.loads(done.stdout)["findings"]
        found = next(each for each in findings if each["subject"] == "private folder")
        assert found["level"] == level, found
        assert f"user id {STRANGER} has made {SQUATTED[0]}" in found["seen"], found
        assert "XDG_RUNTIME_DIR" in found["advice"], found


def test_without_a_home_there_is_no_identity_in_the_folders_of_the_stranger(as_alice: AsAlice) -> None:
    done = as_alice(BUILD / "echo_server", "--port", 0, HOME="/nonexistent")
    assert done.returncode == 2, done
    assert "no folder for this user's identity: cannot make the folder /nonexistent/.config/verbena" in done.stderr
    assert f"user id {STRANGER} has made {SQUATTED[0]}, so it is not used" in done.stderr, done
