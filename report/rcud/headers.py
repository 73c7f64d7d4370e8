# SPDX-License-Identifier: Apache-2.0
"""Header bytes of RoCE v2, which follow from the format and not from a measurement.

The sizes of BTH (12), DETH (8), RETH (16), AETH (4), ICRC (4) and GRH (40) are those of the
InfiniBand specification (IBA 9.2, 9.3). In RoCE v2, IP and UDP (8) take the place of LRH and GRH
(IBA Annex A17). Ethernet has 14 bytes of header and 4 of frame check, not counting preamble and
gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ETHERNET, FCS, IPV4, IPV6, UDP, BTH, ICRC = 14, 4, 20, 40, 8, 12, 4
DETH, RETH, AETH, GRH = 8, 16, 4, 40
MTU_MAX = 4096


@dataclass(frozen=True)
class Packet:
    name: str
    extended: str  # extended transport headers, by name
    extended_bytes: int
    buffer_bytes: int = 0  # bytes of the receive buffer that are on no wire
    note: str = ""

    @property
    def transport(self) -> int:
        return BTH + self.extended_bytes + ICRC

    def wire(self, ip: int) -> int:
        return ETHERNET + ip + UDP + self.transport + FCS


RC_SEND = Packet("RC SEND", "none", 0)
UD_SEND = Packet(
    "UD SEND", "DETH 8", DETH, GRH, "8 bytes more than RC on the wire, and 40 more of every receive buffer"
)
PACKETS = (
    RC_SEND,
    UD_SEND,
    Packet("RC RDMA WRITE", "RETH 16", RETH, note="first packet of a message; the others as RC SEND"),
    Packet("RC RDMA READ request", "RETH 16", RETH, note="no payload"),
    Packet("RC RDMA READ response", "AETH 4", AETH, note="first and last packet"),
    Packet("RC acknowledgement", "AETH 4", AETH, note="the other way, no payload; one may answer many messages"),
)


def packets(msg: int, mtu: int) -> int:
    return max(1, math.ceil(msg / mtu))


def share(packet: Packet, msg: int, mtu: int, ip: int = IPV4) -> float:
    """Return the share of headers in all bytes of one message on the wire."""
    overhead = packets(msg, mtu) * packet.wire(ip)
    return overhead / (overhead + msg)
