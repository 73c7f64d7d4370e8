# SPDX-License-Identifier: Apache-2.0
"""Debian's ibv_devices and ibv_devinfo find our devices and print what the NIC promises of them."""

import re
from collections.abc import Callable

from conftest import Ran, Runner
from namespaces import NamespacePair


def listed(ran: Ran) -> dict[str, str]:
    """The node GUID of each device that ibv_devices has listed, by its name, in its order."""
    assert ran.status == 0, ran
    return dict(re.findall(r"^\s+(vb_\S+)\s+([0-9a-f]{16})$", ran.output, re.MULTILINE))


def test_ibv_devices_lists_the_interfaces(runner: Runner) -> None:
    ran = runner.run(["env", "VERBENA_DEVICES=+vb_lo", "ibv_devices"])
    devices = listed(ran)
    assert "vb_lo" in devices, ran
    assert list(devices)[-1] == "vb_lo", f"the loopback is the last resort\n{ran}"
    assert len(set(devices.values())) == len(devices) and "0" * 16 not in devices.values(), f"GUIDs are unique\n{ran}"


def test_the_loopback_is_listed_where_no_other_device_works_or_where_it_is_named(
    runner: Runner, namespaces_of_mtu: Callable[[int], NamespacePair]
) -> None:
    wire = namespaces_of_mtu(1500)

    def devices(wanted: str, *between: str) -> list[str]:
        command = ["env", f"VERBENA_DEVICES={wanted}", *between, "ibv_devices"]
        return list(listed(runner.run(command, lambda inner: wire.inside(0, inner))))

    assert devices("") == ["vb_wire0"]
    assert devices("vb_lo") == ["vb_lo"]
    assert devices("+vb_lo") == ["vb_wire0", "vb_lo"]
    assert devices("vb_lo,vb_wire0,vb_nowhere") == ["vb_lo", "vb_wire0"]
    assert devices("-vb_wire0") == ["vb_lo"]
    # A namespace of its own, in which only the loopback is up.
    assert devices("", "unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0"') == ["vb_lo"]


def test_ibv_devinfo_shows_active_ports_with_addresses(runner: Runner) -> None:
    ran = runner.run(["env", "VERBENA_DEVICES=+vb_lo", "ibv_devinfo", "-v"])
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


def test_a_list_without_a_device_of_this_host_is_an_error(runner: Runner) -> None:
    ran = runner.run(["env", "VERBENA_DEVICES=vb_nowhere", "ibv_devices"])
    assert "verbena: error: VERBENA_DEVICES names 'vb_nowhere'" in ran.output and "vb_lo" in ran.output, ran
    # A list can be meant for several hosts.
    ran = runner.run(["env", "VERBENA_DEVICES=vb_nowhere,vb_lo", "ibv_devices"])
    assert list(listed(ran)) == ["vb_lo"] and "verbena:" not in ran.output, ran
