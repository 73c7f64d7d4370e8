# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces joined by a veth pair: to the NIC they are two hosts.

Needs root, or a kernel that lets this user make user namespaces.
"""

import json
import os
import subprocess
from pathlib import Path

ADDRESSES = ("10.77.0.1", "10.77.0.2")
INTERFACES = ("wire0", "wire1")


class NotPermitted(Exception):
    """This user may not make network namespaces on this machine."""


class NamespacePair:
    """Two network namespaces with one address each (ADDRESSES), and the wire between them.

    Each namespace exists while its holder runs, a process that waits for the end of its input.
    """

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu
        self._holders: list[subprocess.Popen[str]] = []
        self._in_user_namespace = False
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        if not self._hold(["unshare", "--net"] if os.geteuid() == 0 else ["false"]):
            self._in_user_namespace = True
            if not self._hold(["unshare", "--user", "--map-root-user", "--net"]):
                raise NotPermitted("unshare --net is refused, with and without a user namespace")
        # Without the last word, --net: the second network namespace is made by unshare.
        enter_user = self._enter(0)[:-1] if self._in_user_namespace else []
        if not self._hold([*enter_user, "unshare", "--net"]):
            raise NotPermitted("a second network namespace is refused")

        self.ip(0, f"link add {INTERFACES[0]} type veth peer name {INTERFACES[1]} netns {self._holders[1].pid}")
        for side in (0, 1):
            self.ip(side, "link set lo up")
            self.ip(side, f"link set {INTERFACES[side]} mtu {self.mtu} up")
            self.ip(side, f"address add {ADDRESSES[side]}/24 dev {INTERFACES[side]}")

    def _hold(self, way: list[str]) -> bool:
        """Start a holder by the command `way`; return False if this user may not."""
        holder = subprocess.Popen(
            [*way, "sh", "-c", "echo held; read ended"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert holder.stdout is not None
        if holder.stdout.readline() == "held\n":
            self._holders.append(holder)
            return True
        end(holder)
        return False

    def _enter(self, side: int) -> list[str]:
        way = ["nsenter", "--target", str(self._holders[side].pid)]
        return [*way, *(["--user", "--preserve-credentials"] if self._in_user_namespace else []), "--net"]

    def ip(self, side: int, arguments: str) -> str:
        done = subprocess.run(
            [*self._enter(side), "ip", *arguments.split()], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotPermitted(f"ip {arguments}: {done.stderr.strip()}")
        return done.stdout

    def holder(self, side: int) -> int:
        """The pid of a process in this side's namespace."""
        return self._holders[side].pid

    def inside(self, side: int, command: list[str]) -> list[str]:
        """Return the command line that runs `command` in this side's namespace."""
        return [*self._enter(side), *command]

    def sent_bytes(self, side: int) -> int:
        """The bytes that this side's interface has sent, including headers."""
        (link,) = json.loads(self.ip(side, f"-json -statistics link show {INTERFACES[side]}"))
        return link["stats64"]["tx"]["bytes"]

    def udp_datagrams_sent(self, side: int) -> int:
        """The datagrams that the sockets of this side have sent; a GSO burst may count as one."""
        names, values = (
            line.split()[1:]
            for line in Path(f"/proc/{self._holders[side].pid}/net/snmp").read_text().splitlines()
            if line.startswith("Udp:")
        )
        return int(dict(zip(names, values, strict=True))["OutDatagrams"])

    def close(self) -> None:
        for holder in self._holders:
            end(holder)


def end(holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdin.close()
    holder.stdout.close()
    holder.wait(10)
