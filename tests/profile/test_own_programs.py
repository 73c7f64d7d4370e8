# SPDX-License-Identifier: Apache-2.0
"""The programs of this project run with the limits of devices that have no shared receive queues,
no memory windows or less inline data.
"""

from pathlib import Path

import pytest
from profiled import BUILD, Profiled, free_port

# e810 and floor have no shared receive queues; floor and siw have no memory windows.
PROFILES = ["e810", "floor", "siw"]


def program(profile: str, folder: Path, name: str, *words: str) -> list[str]:
    """A program that is linked to the NIC, with a configuration folder of its own."""
    return ["env", f"VERBENA_PROFILE={profile}", f"XDG_CONFIG_HOME={folder}", str(BUILD / name), *words]


@pytest.mark.parametrize("profile", PROFILES)
def test_channels_do_without_shared_receive_queues(profiled: Profiled, tmp_path: Path, profile: str) -> None:
    words = program(profile, tmp_path, "performance_test", "-c", "10", "-n", "20")
    ran = profiled.runner.run(words)
    assert ran.status == 0 and "judged: valid" in ran.output, ran


@pytest.mark.parametrize("profile", PROFILES)
def test_the_store_does_without_shared_receive_queues(profiled: Profiled, tmp_path: Path, profile: str) -> None:
    port = free_port()
    lines = tmp_path / "lines"
    value = "v" * 50_000  # a large value is fetched or written, where the device has windows
    lines.write_text(f"SET a {value}\nGET a\n")
    server = program(profile, tmp_path, "kv_server", "--port", str(port))
    process, log = profiled.runner.start(server)
    client = program(profile, tmp_path, "kv_client", "--wait", "30", f"127.0.0.1:{port}", str(lines))
    ran = profiled.runner.run(client)
    assert ran.status == 0 and value in ran.output, (ran, log.read_text())
    assert process.poll() is None
