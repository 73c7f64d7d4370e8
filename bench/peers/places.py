# SPDX-License-Identifier: Apache-2.0
"""Where the two processes of a measurement run: on this host, or at the two ends of a wire."""

import shutil
import sys
from pathlib import Path
from typing import Protocol

from cells import Missing

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "clients"))
from namespaces import ADDRESSES, INTERFACES, NamespacePair, NotPermitted


class Place(Protocol):
    """Two sides, 0 for the sender (client) and 1 for the receiver (server)."""

    def inside(self, side: int, command: list[str]) -> list[str]:
        """Return the command that runs `command` on that side."""

    def pid(self, side: int) -> int | str:
        """Return a process in the network of that side."""

    def address(self, side: int) -> str: ...

    def device(self, side: int) -> str:
        """Return the name of our NIC's device."""

    def ucx(self, side: int) -> dict[str, str]:
        """Return the environment that chooses UCX's transport."""

    def ucx_command(self, command: list[str]) -> list[str]:
        """Return the command that runs a program of UCX there."""


class Host:
    """Both sides in one network namespace."""

    def inside(self, side: int, command: list[str]) -> list[str]:
        return command

    def pid(self, side: int) -> int | str:
        return "self"

    def address(self, side: int) -> str:
        return "127.0.0.1"

    def device(self, side: int) -> str:
        return "vb_lo"  # MTU 4096

    def ucx(self, side: int) -> dict[str, str]:
        # Posix shared memory copies twice. By default UCX would use CMA for large messages, which
        # is slower here.
        return {"UCX_TLS": "posix,self"}

    def ucx_command(self, command: list[str]) -> list[str]:
        return command


class Wire:
    """Two network namespaces joined by a veth pair, made when they are first used."""

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu
        self._pair: NamespacePair | None = None
        self._refusal = ""

    def pair(self) -> NamespacePair:
        if self._refusal:
            raise Missing(self._refusal)
        if self._pair is None:
            try:
                for program, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")):
                    find(program, package)
                self._pair = NamespacePair(self.mtu)
            except (Missing, NotPermitted) as refusal:
                self._refusal = f"no network namespaces here: {refusal}"
                raise Missing(self._refusal) from refusal
        return self._pair

    def inside(self, side: int, command: list[str]) -> list[str]:
        return self.pair().inside(side, command)

    def pid(self, side: int) -> int | str:
        return self.pair().holder(side)

    def address(self, side: int) -> str:
        return ADDRESSES[side]

    def device(self, side: int) -> str:
        return f"vb_{INTERFACES[side]}"

    def ucx(self, side: int) -> dict[str, str]:
        return {"UCX_TLS": "tcp", "UCX_NET_DEVICES": INTERFACES[side]}

    def ucx_command(self, command: list[str]) -> list[str]:
        # UCX looks for interfaces in /sys, which shows those of the namespace that mounted it.
        return ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh", *command]

    def close(self) -> None:
        if self._pair is not None:
            self._pair.close()


def find(program: str, package: str) -> str:
    """Return the path of a program; raise Missing with the Debian package that has it."""
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{program} is not installed: apt-get install {package}")
    return found
