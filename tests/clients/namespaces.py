"""Two network namespaces joined by a veth wire: the nearest thing to two hosts that one machine has.

Without root where the kernel allows user namespaces.
"""

import json
import os
import subprocess
from pathlib import Path

ADDRESSES = ("10.77.0.1", "10.77.0.2")
INTERFACES = ("wire0", "wire1")


class NotPermitted(Exception):
    """This user may not make network namespaces here."""


class NamespacePair:
    """Each namespace lives as long as its holder, a process that only waits for the end of its input."""

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
        enter_user = self._enter(0)[:-1] if self._in_user_namespace else []  # all but --net, which is to be a new one
        if not self._hold([*enter_user, "unshare", "--net"]):
            raise NotPermitted("a second network namespace is refused")

        self.ip(0, f"link add {INTERFACES[0]} type veth peer name {INTERFACES[1]} netns {self._holders[1].pid}")
        for side in (0, 1):
            self.ip(side, "link set lo up")
            self.ip(side, f"link set {INTERFACES[side]} mtu {self.mtu} up")
            self.ip(side, f"address add {ADDRESSES[side]}/24 dev {INTERFACES[side]}")

    def _hold(self, way: list[str]) -> bool:
        """Keeps a process in a new namespace, if that is allowed. It says when it is there."""
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
        """A process that is in this side's namespace."""
        return self._holders[side].pid

    def inside(self, side: int, command: list[str]) -> list[str]:
        """The command that runs `command` on this side."""
        return [*self._enter(side), *command]

    def sent_bytes(self, side: int) -> int:
        """What the interface of this side has sent, headers included."""
        (link,) = json.loads(self.ip(side, f"-json -statistics link show {INTERFACES[side]}"))
        return link["stats64"]["tx"]["bytes"]

    def udp_datagrams_sent(self, side: int) -> int:
        """By the sockets of this side; a GSO burst may count as one."""
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
