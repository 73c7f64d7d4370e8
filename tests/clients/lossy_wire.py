# SPDX-License-Identifier: Apache-2.0
"""A wire between two network namespaces that drops UDP packets at random, reproducibly by a seed.

    with lossy_wire(0.02) as both:
        command = both.inside(0, ["ping", ADDRESSES[1]])

This file is also a program: run as a separate process, it carries packets between two tun
interfaces, one on each side. A tun interface has no segmentation offload, so single packets are
lost and not whole bursts, as they would be on a veth pair.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from namespaces import NamespacePair, NotPermitted

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
UDP = 17
NAME = "lossy0"
ADDRESSES = ("10.78.0.1", "10.78.0.2")
MTU = 1500


@contextlib.contextmanager
def lossy_wire(loss: float) -> Iterator[NamespacePair]:
    """Make two namespaces and a wire that drops the share `loss` (0 to 1) of its UDP packets.

    Raises NotPermitted where this user may not make network namespaces or tun interfaces.
    """
    both = NamespacePair(MTU)
    relay = subprocess.Popen(
        [sys.executable, __file__, *(str(both.holder(side)) for side in (0, 1)), str(loss), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert relay.stdout is not None and relay.stderr is not None
        if relay.stdout.readline() != "ready\n":
            raise NotPermitted(f"no tun interface: {relay.stderr.read().strip()}")
        for side in (0, 1):
            both.ip(side, f"address add {ADDRESSES[side]} peer {ADDRESSES[1 - side]} dev {NAME}")
            both.ip(side, f"link set {NAME} mtu {MTU} txqueuelen 10000 up")
        yield both
    finally:
        relay.kill()
        relay.communicate()
        both.close()


def enter(pid: int, kind: str, flag: int) -> None:
    """Move this process into the namespace of `pid` of that kind (net, user)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/{kind}").open() as namespace:
        if libc.setns(namespace.fileno(), flag) != 0:
            raise OSError(ctypes.get_errno(), f"setns {kind}")


def open_tun(pid: int) -> int:
    enter(pid, "net", CLONE_NEWNET)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def is_udp(packet: bytes) -> bool:
    return len(packet) > 20 and (packet[9] == UDP if packet[0] >> 4 == 4 else packet[6] == UDP)


def carry(tuns: tuple[int, int], loss: float, seed: int) -> None:
    """Move packets between the two interfaces for ever, and drop some of the UDP ones."""
    chance = random.Random(seed)
    while True:
        for ready in select.select(tuns, [], [])[0]:
            other = tuns[1] if ready == tuns[0] else tuns[0]
            for _ in range(64):
                try:
                    packet = os.read(ready, 65536)
                except OSError:  # no more packets, or the interface is not up yet
                    break
                if is_udp(packet) and chance.random() < loss:
                    continue
                with contextlib.suppress(OSError):
                    os.write(other, packet)


def main() -> None:
    holders, loss, seed = (int(sys.argv[1]), int(sys.argv[2])), float(sys.argv[3]), int(sys.argv[4])
    if os.stat(f"/proc/{holders[0]}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        enter(holders[0], "user", CLONE_NEWUSER)
    tuns = (open_tun(holders[0]), open_tun(holders[1]))
    print("ready", flush=True)
    carry(tuns, loss, seed)


if __name__ == "__main__":
    main()
