# SPDX-License-Identifier: Apache-2.0
"""Programs that are not linked with libibverbs find the NIC by opening libibverbs.so.1."""

import sys

import pytest
from conftest import HERE, PRELOADED, Compile, Way, run


@pytest.mark.parametrize("name", ["libibverbs.so.1", "libibverbs.so"])
@pytest.mark.parametrize("lookup", ["dlsym", "dlvsym"])
def test_a_ping_pong_by_functions_that_were_looked_up(compiled: Compile, way: Way, name: str, lookup: str) -> None:
    assert run(way, compiled("pingpong.c"), name, lookup).startswith("1000 round trips on vb_")


def test_the_linker_dlsym_and_dlvsym_give_one_nic(compiled: Compile, way: Way, devices: list[str]) -> None:
    program = compiled("linked_and_opened.c", "-libverbs")
    assert run(way, program).splitlines() == [f"devices {len(devices)}", "threads 1"]


def test_python_ctypes_sees_the_devices(way: Way, devices: list[str]) -> None:
    assert run(way, sys.executable, HERE / "devices.py").split() == devices


@pytest.mark.parametrize("source", ["devices.go", "devices.rs"])
def test_a_compiled_program_sees_the_devices(compiled: Compile, way: Way, devices: list[str], source: str) -> None:
    assert run(way, compiled(source)).split() == devices


def test_libraries_of_providers_refuse_our_devices(compiled: Compile, way: Way, devices: list[str]) -> None:
    # They register with libibverbs.so.1 when they are loaded, and that is our library.
    program = compiled("providers.c", "-libverbs", "-lmlx5", "-lefa")
    assert run(way, program).splitlines() == [f"{device} 0 0 0" for device in devices]


def test_ibv_devinfo_prints_what_it_prints_when_our_library_is_only_preloaded(way: Way) -> None:
    shown = run(way, "ibv_devinfo", "-v")
    assert "GID[" in shown
    assert shown == run(PRELOADED, "ibv_devinfo", "-v")
