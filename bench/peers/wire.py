# SPDX-License-Identifier: Apache-2.0
"""The cells that are measured between two network namespaces joined by a veth pair."""

from collections.abc import Iterator

from cells import GIB, MOPS, OURS, OVERRUNS, P50, P99, Cell, Contestant, size_name
from places import Wire
from programs import Machine

MTUS = [1500, 9000]
DEPTHS = [1, 4, 16, 64]
LATENCIES = [
    ("SEND", "ib_send_lat", 8),
    ("WRITE", "ib_write_lat", 8),
    ("WRITE", "ib_write_lat", 4096),
    ("WRITE", "ib_write_lat", 65536),
]
ROCE_PAYLOAD = {1500: 1024, 9000: 4096}  # bytes of a packet: the largest RoCE MTU that fits
HEADER_BYTES = 16  # BTH and ICRC of a RoCEv2 packet; without them UDP carries the payload alone
MIB = 1 << 20


def wire_cells(machine: Machine, quick: bool, wire: Wire) -> Iterator[Cell]:
    """Latency, message rate and bandwidth at the MTU of the wire."""
    where = f"MTU {wire.mtu}"
    trips, messages, writes = (2_000, 50_000, 200) if quick else (5_000, 200_000, 600)
    for what, program, size in LATENCIES:
        ours = Contestant(OURS, lambda p=program, s=size: machine.perftest(p, [], s, trips, wire))
        tag_lat = Contestant("UCX tcp tag_lat", lambda s=size: machine.ucx_latency(s, trips, wire))
        yield Cell("wire", f"{where}: {what} {size_name(size)}, one way", (P50, P99), (ours, tag_lat))

    milliseconds = 200 if quick else 500
    depth = ["-t", "64", "--cq-mod", "1"]
    yield Cell(
        "wire",
        f"{where}: SEND 64 B, window 64",
        (MOPS,),
        (
            Contestant(OURS, lambda: machine.perftest("ib_send_bw", depth, 64, messages, wire)),
            Contestant("UCX tcp tag_bw", lambda: machine.ucx(["-t", "tag_bw", "-O", "64"], 64, messages, wire)),
            Contestant("UDP GSO", lambda: machine.datagrams(64 + HEADER_BYTES, 64, milliseconds, wire)),
        ),
    )
    payload = ROCE_PAYLOAD[wire.mtu]
    for window in DEPTHS:
        options = ["-t", str(window), "--cq-mod", "1"]
        tag = ["-t", "tag_bw", "-O", str(window)]
        yield Cell(
            "wire",
            f"{where}: WRITE 1 MiB, window {window}",
            (GIB, OVERRUNS),
            (
                Contestant(OURS, lambda o=options: machine.perftest("ib_write_bw", o, MIB, writes, wire)),
                Contestant("UCX tcp tag_bw", lambda t=tag: machine.ucx(t, MIB, writes, wire)),
                Contestant("iperf3", lambda: machine.iperf(1, wire)),
                Contestant("UDP GSO", lambda: machine.datagrams(payload + HEADER_BYTES, payload, milliseconds, wire)),
            ),
        )
