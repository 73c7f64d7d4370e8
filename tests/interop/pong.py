#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pong.py LOCAL-IP: a minimal RoCEv2 peer in user space, for the client of ibv_rc_pingpong -m 1024.

It uses ordinary UDP and TCP sockets and knows only SEND over RC. It shows that a process on the
host can exchange packets with a guest's kernel rxe, independently of our NIC. It retransmits
nothing and trusts all PSNs.
"""

import socket
import struct
import sys
import zlib

me, MTU, QPN, PSN = sys.argv[1], 1024, 0x123, 0x777
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# The ICRC covers the IP header's identification and DF flag. With path MTU discovery forced (option
# 10 is IP_MTU_DISCOVER, value 2 is IP_PMTUDISC_DO) and without connect(), Linux sends
# identification 0 and DF.
udp.setsockopt(socket.IPPROTO_IP, 10, 2)
udp.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 64)
udp.bind((me, 4791))
udp.settimeout(20)


def icrc(src, dst, sport, bth_on, ip_id=0):
    n = 28 + len(bth_on) + 4
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0xFF, n, ip_id, 0x4000, 0xFF, 17, 0xFFFF, socket.inet_aton(src), socket.inet_aton(dst)
    )
    u = struct.pack("!HHHH", sport, 4791, n - 20, 0xFFFF)
    b = bytearray(bth_on)
    b[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + u + bytes(b)))


def send(opcode, psn, rest=b"", ackreq=0):
    p = struct.pack("!BBHII", opcode, 0x40 | (-len(rest) % 4) << 4, 0xFFFF, dqpn, ackreq << 31 | psn & 0xFFFFFF)
    p += rest + b"\0" * (-len(rest) % 4)
    udp.sendto(p + icrc(me, peer, 4791, p), (peer, 4791))


tcp = socket.create_server((me, 18515))
c, (peer, _) = tcp.accept()
m = c.recv(52, socket.MSG_WAITALL).decode()
print("peer says", m[:51])
dqpn = int(m[5:11], 16)
gid = "00000000" + "00000000" + "0000ffff" + socket.inet_aton(me).hex()
c.sendall(b"%04x:%06x:%06x:%s\0" % (0, QPN, PSN, gid.encode()))
c.recv(5, socket.MSG_WAITALL)
msn = rx = acks = dup = 0
buf = b""
psn = PSN
want = int(m[12:18], 16)
first = None
try:
    while True:
        p, (src, sport) = udp.recvfrom(9000)
        op, pad, qpn, ap = (
            p[0],
            p[1] >> 4 & 3,
            struct.unpack("!I", p[4:8])[0] & 0xFFFFFF,
            struct.unpack("!I", p[8:12])[0],
        )
        rx += 1
        first = first or (p, src, sport)
        if rx < 4:
            print(f"op {op:#04x} qpn {qpn:#x} psn {ap & 0xFFFFFF:#x}, {len(p)} bytes from {src}:{sport}")
        if op == 0x11:
            acks += 1
            continue
        assert op in (0, 1, 2, 4) and qpn == QPN
        if ap & 0xFFFFFF != want:
            dup += 1
            continue
        want = want + 1 & 0xFFFFFF
        buf += p[12 : len(p) - 4 - pad]
        if op in (2, 4):
            msn += 1
        if ap >> 31 or op in (2, 4):
            send(0x11, ap, struct.pack("!I", 0x1F << 24 | msn))
        if op in (2, 4):
            parts = [buf[i : i + MTU] for i in range(0, len(buf), MTU)]
            buf = b""
            for i, d in enumerate(parts):
                last = i == len(parts) - 1
                send(4 if len(parts) == 1 else 0 if i == 0 else 2 if last else 1, psn, d, int(last))
                psn += 1
except TimeoutError:
    pass
print(f"{rx} packets received, {msn} messages, {acks} acks, {dup} out of order")
# A UDP socket does not show the IP identification of the kernel's packets, so try all of them.
p, src, sport = first
print("ICRC of the first is right for IP id", [i for i in range(65536) if icrc(src, me, sport, p[:-4], i) == p[-4:]])
