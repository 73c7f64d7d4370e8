# SPDX-License-Identifier: Apache-2.0
"""RC against UD as a value."""

from __future__ import annotations

from report.experiment import Experiment, Figure, Section
from report.rcud import charts, claims, compare, headers
from report.rcud.facts import facts
from report.rcud.rows import Row, Source, read_rows

COLUMNS = {
    "msg": "Message (B)",
    "window": "Window",
    "mops": "Mops",
    "gib": "GiB/s",
    "spread": "Spread",
    "p50_us": "P50 (µs)",
    "p99_us": "P99 (µs)",
    "p9999_us": "P99.99 (µs)",
    "max_us": "Maximum (µs)",
    "iters": "Iterations",
    "posted": "Posted",
    "delivered": "Delivered",
    "lost": "Lost",
    "duplicated": "Duplicated",
    "reordered": "Reordered",
    "rtt_before_ns": "Core to core before (ns)",
    "rtt_after_ns": "after (ns)",
}


def _spectrum(row: Row) -> tuple[str, str]:
    return f"{row.msg} B, window {row.window}", f"{row.mode} {row.op.upper()}, {row.window_mode}"


def _sections(sources: list[Source]) -> list[Section]:
    kinds = [
        (
            p.name,
            p.extended,
            *map(str, (p.transport, p.wire(headers.IPV4), p.wire(headers.IPV6), p.buffer_bytes)),
            p.note,
        )
        for p in headers.PACKETS
    ]
    note = (
        f"These sizes follow from the RoCE v2 format. Each packet has Ethernet {headers.ETHERNET}+{headers.FCS}, "
        f"IPv4 {headers.IPV4} or IPv6 {headers.IPV6}, UDP {headers.UDP}, BTH {headers.BTH} and ICRC {headers.ICRC} "
        "bytes; transport is BTH, extended header and ICRC. No header travels through shared memory on one host, but "
        f"the {headers.GRH} bytes of GRH are still written."
    )
    heads = ("Packet", "Extended header", "Transport (B)", "Wire, IPv4 (B)", "Wire, IPv6 (B)")
    heads += ("Receive buffer (B)", "Note")
    mtu = max((row.mtu for source in sources for row in source.rows if row.mtu), default=headers.MTU_MAX)
    shares = []
    for msg in sorted({row.msg for source in sources for row in source.rows}):
        count = headers.packets(msg, mtu)
        rc, ud = (
            f"{count * p.wire(headers.IPV4)} ({100 * headers.share(p, msg, mtu):.1f} %)"
            for p in (headers.RC_SEND, headers.UD_SEND)
        )
        shares.append((f"{msg} B", str(count), rc, ud if count == 1 else "n/a: more than one packet"))
    return [
        Section("Header bytes of a packet", note, heads, kinds, ("Extended header", "Note")),
        Section(
            f"Headers of one SEND on Ethernet and IPv4, MTU {mtu}",
            "",
            ("Message", "Packets", "RC (B, share of wire)", "UD (B, share of wire)"),
            shares,
        ),
    ]


RCUD = Experiment(
    name="rcud",
    title="RC against UD",
    counts="One sender, one receiver; a message counts when the receiver has it.",
    rows=read_rows,
    source=Source,
    published_system="rc_vs_ud",
    published_table="rc_vs_ud.csv",
    claims=claims.JUDGES,
    claims_note=(
        "Judged by local windows, which the published programs use. Significant is a lead of at least 5 %; nearly "
        "identical is within 10 %; small is up to 1024 B, large from 4096 B."
    ),
    name_of=lambda row: row.name,
    compare=compare.compare_all,
    charts=charts.charts,
    words={"rtt_class": "Class"},
    columns=COLUMNS,
    figures=(Figure("mops", "Message rate (Mops)"),),
    spectrum=_spectrum,
    facts=facts,
    sections=_sections,
)
