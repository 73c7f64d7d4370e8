"""Debian's ibv_devices and ibv_devinfo find our devices and print what the NIC promises of them."""

import re

from conftest import Runner


def test_ibv_devices_lists_the_interfaces(runner: Runner) -> None:
    ran = runner.run(["ibv_devices"])
    assert ran.status == 0, ran
    devices = dict(re.findall(r"^\s+(vb_\S+)\s+([0-9a-f]{16})$", ran.output, re.MULTILINE))
    assert "vb_lo" in devices, ran
    assert list(devices)[-1] == "vb_lo", f"the loopback is the last resort\n{ran}"
    assert len(set(devices.values())) == len(devices) and "0" * 16 not in devices.values(), f"GUIDs are unique\n{ran}"


def test_ibv_devinfo_shows_active_ports_with_addresses(runner: Runner) -> None:
    ran = runner.run(["ibv_devinfo", "-v"])
    assert ran.status == 0, ran
    blocks = re.split(r"^hca_id:\s*", ran.output, flags=re.MULTILINE)[1:]
    assert blocks, ran
    for block in blocks:
        assert re.search(r"state:\s+PORT_ACTIVE", block), ran
        assert re.search(r"link_layer:\s+Ethernet", block), ran
        assert re.search(r"GID\[ *0\]:\s+\S+, RoCE v2", block), ran
    (loopback,) = (block for block in blocks if block.startswith("vb_lo"))
    assert re.search(r"active_mtu:\s+4096", loopback), ran
    assert re.search(r"GID\[ *0\]:\s+::ffff:127\.0\.0\.1, RoCE v2", loopback), ran


def test_ibv_devinfo_of_a_device_that_is_not_there_fails(runner: Runner) -> None:
    ran = runner.run(["ibv_devinfo", "-d", "vb_nowhere"])
    assert ran.status not in (0, -11, -6), ran
