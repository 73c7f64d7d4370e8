# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 packets as real adapters send them, written by the test and sent through a raw socket.

An ordinary socket cannot clear the DF bit of the IPv4 header without the kernel choosing the
identification, and the ICRC covers both, so the test writes the IP header itself.
"""

import socket
import struct
import zlib
from collections.abc import Iterator

import pytest
from conftest import Node, Nodes

ROCE_PORT = 4791
SOURCE_PORT = 49500
DF = 0x4000
Q_KEY = 0x11111111
UD_SEND_ONLY, CNP = 0x64, 0x81
ADDRESS = socket.inet_aton("127.0.0.1")


def icrc(ip_id: int, flags: int, covered: bytes) -> bytes:
    """The ICRC of a packet from and to ADDRESS; `covered` begins with the BTH."""
    length = 8 + len(covered) + 4
    masked_ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + length, ip_id, flags, 0xFF, 17, 0xFFFF) + 2 * ADDRESS
    masked_udp = struct.pack(">HHHH", SOURCE_PORT, ROCE_PORT, length, 0xFFFF)
    masked_bth = covered[:4] + b"\xff" + covered[5:]
    return struct.pack("<I", zlib.crc32(8 * b"\xff" + masked_ip + masked_udp + masked_bth))


def bth(opcode: int, qpn: int) -> bytes:
    return struct.pack(">BBHII", opcode, 0, 0xFFFF, qpn, 0)


def datagram(qpn: int) -> bytes:
    """A UD SEND of 16 bytes from QPN 0x99, without its ICRC."""
    return bth(UD_SEND_ONLY, qpn) + struct.pack(">II", Q_KEY, 0x99) + bytes(16)


class Wire:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def send(self, ip_id: int, flags: int, covered: bytes, damage: int = 0) -> None:
        payload = bytearray(covered + icrc(ip_id, flags, covered))
        payload[-5] ^= damage
        length = 8 + len(payload)
        # The kernel fills in the checksum of the IP header. No UDP checksum, as real adapters send.
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, ip_id, flags, 64, 17, 0) + 2 * ADDRESS
        udp = struct.pack(">HHHH", SOURCE_PORT, ROCE_PORT, length, 0)
        self._socket.sendto(ip + udp + payload, ("127.0.0.1", 0))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    try:
        opened = Wire()
    except PermissionError:
        pytest.skip("no raw sockets here: this needs root")
    yield opened
    opened.close()


@pytest.fixture
def receiver(nodes: Nodes) -> tuple[Node, int]:
    """A node with an unreliable datagram queue pair that has 64 receives, and its number."""
    node = nodes.start().open()
    index, qpn = node.qp("ud")
    node.ask("receive", index, 64)
    return node, qpn


@pytest.mark.parametrize("flags", [DF, 0], ids=["df", "no-df"])
def test_packets_are_accepted_whether_or_not_they_may_be_fragmented(
    wire: Wire, receiver: tuple[Node, int], flags: int
) -> None:
    node, qpn = receiver
    for ip_id in (0x718C, 1, 0xFFFF, 5, 64, 0x8000, 2):  # not 0, which the kernel replaces
        wire.send(ip_id, flags, datagram(qpn))
    assert node.poll(7).counts == {"RECEIVED": 7}


def test_a_sender_that_sets_df_is_not_believed_without_it(wire: Wire, receiver: tuple[Node, int]) -> None:
    node, qpn = receiver
    wire.send(7, DF, datagram(qpn))
    wire.send(8, 0, datagram(qpn))
    wire.send(9, DF, datagram(qpn))
    assert node.poll(3, 300).counts == {"RECEIVED": 2}


def test_a_congestion_notification_between_packets_has_no_effect(wire: Wire, receiver: tuple[Node, int]) -> None:
    node, qpn = receiver
    for ip_id in range(1, 5):
        wire.send(ip_id, 0, datagram(qpn))
        wire.send(ip_id, 0, bth(CNP, qpn) + bytes(16))
        wire.send(ip_id, 0, datagram(qpn), damage=1)
    assert node.poll(5, 300).counts == {"RECEIVED": 4}
