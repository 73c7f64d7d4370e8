# SPDX-License-Identifier: Apache-2.0
"""The real libibverbs is found past ours, and gets the calls that are for real devices.

A machine without RDMA hardware has no real device, so the "real" library here is one of our own
(fake_libibverbs.c) that writes down each call. Its device comes from a provider that registers
itself, as those of rdma-core do.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import FOLDER, HERE, LIMIT_S, NIC, WAYS, Compile, Way, run

# The ways, where {fake} is the folder of the fake library.
WITH_LIBRARY = [
    # The variables that `verbena run` sets. It could not start with the fake library itself.
    pytest.param(Way({"LD_PRELOAD": f"{NIC}", "LD_LIBRARY_PATH": f"{FOLDER}:{{fake}}"}), id="verbena run"),
    pytest.param(Way({"LD_LIBRARY_PATH": f"{FOLDER}:{{fake}}"}), id="folder"),
    pytest.param(Way({"LD_PRELOAD": f"{NIC}", "LD_LIBRARY_PATH": "{fake}"}), id="preloaded"),
]


@dataclass
class Fake:
    folder: Path
    provider: Path
    log: Path

    def run(self, way: Way, *command: object) -> str:
        filled = {name: value.format(fake=self.folder) for name, value in way.environment.items()}
        variables = {
            "FAKE_LOG": str(self.log),
            "FAKE_PROVIDER": str(self.provider),
            "RDMAV_ALLOW_DISASSOC_DESTROY": "1",  # the 1 among the arguments below
        }
        return run(Way(filled, way.command), *command, variables=variables)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def fake(compiled: Compile, tmp_path: Path) -> Fake:
    script = f"-Wl,--version-script={HERE / 'fake_libibverbs.map'}"
    library = compiled("fake_libibverbs.c", "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", script)
    provider = compiled("fake_provider.c", "-shared", "-fPIC", str(library))
    folder = tmp_path / "fake"
    folder.mkdir()
    shutil.copy(library, folder / "libibverbs.so.1")
    return Fake(folder, provider, tmp_path / "calls")


@pytest.mark.parametrize("found", WITH_LIBRARY)
def test_real_devices_come_first_in_the_list(fake: Fake, devices: list[str], found: Way) -> None:
    listing = fake.run(found, "ibv_devices").splitlines()[2:]
    assert [line.split()[0] for line in listing] == ["fake0", *devices]
    assert fake.calls()[0] == "ibv_get_device_list"


@pytest.mark.parametrize("found", WITH_LIBRARY)
def test_a_providers_calls_arrive_in_the_real_library_with_all_arguments(fake: Fake, found: Way) -> None:
    fake.run(found, "ibv_devices")
    # The first call of a function looks it up, the second does not.
    arguments = "1 2 3 4 5 6|0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9|1 7"
    assert fake.calls() == [
        "ibv_get_device_list",
        "verbs_register_driver_34 operations",
        f"__verbs_log context 3 1|{arguments}",
        f"__verbs_log context 3 2|{arguments}",
        "ibv_dontfork_range 0x1000 42",
        "__verbs_log results 0 12 95",  # 95: EOPNOTSUPP, for a function that it lacks
    ]


def test_the_installed_library_is_found_where_the_loader_would_find_it(tmp_path: Path) -> None:
    # Without a fake, the library is the one of ld.so.conf or of the system's folders.
    trace = tmp_path / "trace"
    run(WAYS["folder"], "ibv_devices", variables={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(trace)})
    text = "".join(path.read_text() for path in tmp_path.glob("trace.*"))
    opened = re.findall(r"calling init: (\S*/libibverbs\.so\.1)$", text, re.MULTILINE)
    assert opened[0] == str(FOLDER / "libibverbs.so.1")
    assert [Path(path).resolve() for path in opened[1:]] == [installed_library()]


def test_without_a_real_library_our_devices_are_listed(compiled: Compile, devices: list[str]) -> None:
    # An empty file covers the installed library, in a mount namespace of this process alone.
    hide = f'mount --bind /dev/null "{installed_library()}" && exec "$@"'
    unshare = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else []), "sh", "-c"]
    if subprocess.run([*unshare, hide, "sh", "true"], capture_output=True, timeout=LIMIT_S, check=False).returncode:
        pytest.skip("no mount namespaces here")
    program = compiled("pingpong.c")
    in_folder = ["env", f"LD_LIBRARY_PATH={FOLDER}"]
    assert "round trips" in run(Way(), *unshare, hide, "sh", *in_folder, program, "libibverbs.so.1", "dlvsym")
    listing = run(Way(), *unshare, hide, "sh", *in_folder, "ibv_devices").splitlines()[2:]
    assert [line.split()[0] for line in listing] == devices


def installed_library() -> Path:
    linker = subprocess.run(["cc", "-print-file-name=libibverbs.so.1"], capture_output=True, text=True, check=True)
    return Path(linker.stdout.strip()).resolve()
