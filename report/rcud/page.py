"""The page of RC against UD: facts, pictures, claims and rows, all generated from the tables.

The page loads nothing from outside. Pictures are inline SVG, whose colours follow the light or dark
scheme of the page.
"""

from __future__ import annotations

import math
from html import escape

from report.html_parts import (
    claims_html,
    document,
    environment_html,
    finding_html,
    kinds_html,
    mark_html,
    picture_html,
    table_html,
)
from report.pictures import Picture
from report.rcud import headers
from report.rcud.claims import Judgement
from report.rcud.compare import Comparison, compare, digits, divide, window_modes
from report.rcud.facts import facts, rate
from report.rcud.rows import Source

MARKS = {"valid": "good", "suspect": "doubt", "invalid": "bad", "n/a": "none"}


def render(
    sources: list[Source], pictures: list[Picture], judged: dict[str, list[Judgement]], published: Source | None
) -> str:
    """Return the page as HTML.

    `judged` has the judgements by the label of their source. `published` is shown beside the
    sources; it is None if it is one of them.
    """
    title = "RC against UD"
    sections = [
        ("Facts", "".join(_facts(source) for source in sources)),
        ("Pictures", "".join(picture_html(picture) for picture in pictures)),
        ("Winner in each cell", "".join(_winners(source, published) for source in sources)),
        ("Published claims", _claims(judged)),
        ("Local against credit windows", "".join(_windows(source) for source in sources)),
        ("Header bytes of each message", _headers(sources)),
        ("Rows", "".join(_rows(source) for source in [*sources, *([published] if published else [])])),
        ("Environment", "".join(environment_html(source) for source in sources)),
    ]
    measured = all(any(row.delivered is not None for row in source.rows) for source in sources)
    counted = (
        "Rates are of messages that the receiver counted."
        if measured
        else "Not every table has messages that the receiver counted."
    )
    return document(title, f"{counted} {kinds_html(sources)}.", sections)


def json_more(source: Source) -> dict[str, object]:
    """Return what the JSON has of a source besides its rows."""
    cells = [
        {"msg": cell.msg, "window": cell.window, "window_mode": cell.window_mode, "winner": cell.winner}
        | ({"obstacle": cell.obstacle} if cell.obstacle else {"ud_over_rc": _finite(cell)})
        for cell in compare(source)
    ]
    return {"facts": facts(source), "cells": cells}


def _finite(cell: Comparison) -> list[float | None]:
    """Return low, middle and high; None replaces infinity, which JSON does not have."""
    return [value if math.isfinite(value) else None for value in (cell.ratio_low, cell.ratio, cell.ratio_high)]


def _facts(source: Source) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in facts(source))
    intervals = any(row.has_interval for row in source.rows)
    note = (
        "95 % intervals in brackets."
        if intervals
        else "One run without intervals; only the rounding of its digits is known."
    )
    note += " A winner is named only where intervals do not overlap."
    return (
        f"<h3>{escape(source.label)} <small>{escape(source.device_text)}</small></h3><ul>{items}</ul><p "
        f"class=note>{note}</p>"
    )


def _winners(source: Source, published: Source | None) -> str:
    beside = {(cell.msg, cell.window): cell for cell in compare(published)} if published else {}
    rows = []
    for cell in compare(source):
        name = f"{cell.msg} B, window {cell.window}" + ("" if source.published else f", {cell.window_mode}")
        other = beside.get((cell.msg, cell.window)) if cell.window_mode == "local" else None
        theirs = [_ratio(other) if other else ""] if published else []
        if cell.obstacle:
            rows.append((name, "", "", "", f"<td class=text>{_winner(cell)} {escape(cell.obstacle)}</td>", *theirs))
        else:
            rows.append(
                (name, rate(cell.rc), rate(cell.ud), _ratio(cell), f"<td class=text>{_winner(cell)}</td>", *theirs)
            )
    heads = ("Cell", "RC (Mops)", "UD (Mops)", "UD/RC", "Winner", *(["Published UD/RC"] if published else []))
    return table_html(f"SEND, {escape(source.label)}", heads, rows)


def _winner(cell: Comparison) -> str:
    return mark_html({"RC": "blue", "UD": "orange"}.get(cell.winner, "none"), cell.winner)


def _ratio(cell: Comparison) -> str:
    return "n/a" if cell.obstacle else f"{cell.ratio:.2f} [{cell.ratio_low:.2f}, {cell.ratio_high:.2f}]"


def _claims(judged: dict[str, list[Judgement]]) -> str:
    note = (
        "Each published sentence is judged from the rows of each table, by local windows, which the published "
        "programs use. "
        "Significant is a lead of at least 5 %; nearly identical is within 10 %; small is up to 1024 B, large from "
        "4096 B. "
        "Suspect and invalid rows support no claim."
    )
    return claims_html(
        judged, note, lambda each: f"<p>With credit windows: {finding_html(each.credit)}</p>" if each.credit else ""
    )


def _windows(source: Source) -> str:
    pairs = window_modes(source)
    if not pairs:
        return f"<p>{escape(source.label)}: no rows in both window modes.</p>"
    rows = []
    for local, credit in pairs:
        low, high = divide(credit.low, local.high), divide(credit.high, local.low)
        change = "no difference" if low <= 1 <= high else f"{100 * (divide(credit.mops, local.mops) - 1):+.0f} %"
        lost = ["" if row.lost is None else f"{row.lost:,}" for row in (local, credit)]
        rows.append(
            (f"{local.mode} {local.op} {local.msg} B, window {local.window}", rate(local), rate(credit), change, *lost)
        )
    note = (
        "<p>A local window counts the sender's own completions. For UD a completion says that a message has left, "
        "not that it has arrived, so "
        "the window does not limit the undelivered messages. A credit window counts the messages that the receiver "
        "has, for both transports.</p>"
    )
    heads = ("Cell", "Local (Mops)", "Credit (Mops)", "Change", "Lost, local", "Lost, credit")
    return note + table_html(f"Window modes, {escape(source.label)}", heads, rows)


def _headers(sources: list[Source]) -> str:
    kinds = [
        (
            p.name,
            p.extended,
            *(str(n) for n in (p.transport, p.wire(headers.IPV4), p.wire(headers.IPV6), p.buffer_bytes)),
            f"<td class=text>{p.note}</td>",
        )
        for p in headers.PACKETS
    ]
    sizes = sorted({row.msg for source in sources for row in source.rows})
    mtu = max((row.mtu for source in sources for row in source.rows if row.mtu), default=headers.MTU_MAX)
    shares = []
    for msg in sizes:
        count = headers.packets(msg, mtu)
        rc, ud = (
            f"{count * p.wire(headers.IPV4)} ({100 * headers.share(p, msg, mtu):.1f} %)"
            for p in (headers.RC_SEND, headers.UD_SEND)
        )
        shares.append((f"{msg} B", str(count), rc, ud if count == 1 else "n/a: more than one packet"))
    heads = (
        "Packet",
        "Extended header",
        "Transport (B)",
        "Wire, IPv4 (B)",
        "Wire, IPv6 (B)",
        "Receive buffer (B)",
        "Note",
    )
    note = (
        f"These sizes follow from the RoCE v2 format. Each packet has Ethernet {headers.ETHERNET}+{headers.FCS}, "
        f"IPv4 {headers.IPV4} or IPv6 "
        f"{headers.IPV6}, UDP {headers.UDP}, BTH {headers.BTH} and ICRC {headers.ICRC} bytes; transport is BTH, "
        "extended header and ICRC. "
        f"No header travels through shared memory on one host, but the {headers.GRH} bytes of GRH are still written."
    )
    caption = f"Headers of one SEND on Ethernet and IPv4, MTU {mtu}"
    return (
        f"<p>{note}</p>"
        + table_html("Header bytes of a packet", heads, kinds)
        + table_html(caption, ("Message", "Packets", "RC (B, share of wire)", "UD (B, share of wire)"), shares)
    )


def _rows(source: Source) -> str:
    heads = ("Mode", "Op", "Window mode", "Msg (B)", "Window", "Iterations", "Mops", "GiB/s", "Validity", "Spread")
    heads += ("Posted", "Delivered", "Lost", "Duplicated", "Reordered", "p50 (µs)", "p99 (µs)")
    heads += ("Core to core (ns)", "Class", "Reason")
    rows = []
    for row in source.rows:
        counts = [
            "" if n is None else f"{n:,}" for n in (row.posted, row.delivered, row.lost, row.duplicated, row.reordered)
        ]
        trips = " / ".join(f"{t:.0f}" for t in (row.rtt_before_ns, row.rtt_after_ns) if t is not None)
        rows.append(
            (
                row.mode,
                row.op,
                "" if source.published else row.window_mode,
                str(row.msg),
                str(row.window),
                f"{row.iters:,}",
                "" if row.mops is None else rate(row),
                "" if row.gib is None else digits(row.gib),
                mark_html(MARKS[row.validity], row.validity),
                "" if row.spread is None else f"{100 * row.spread:.1f} %",
                *counts,
                *("" if value is None else digits(value) for value in (row.p50_us, row.p99_us)),
                trips,
                f'<span class="class {escape(row.rtt_class)}">{escape(row.rtt_class)}</span>' if row.rtt_class else "",
                f"<td class=text>{escape(row.reason)}</td>" if row.reason else "",
            )
        )
    used = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    note = "<p class=note>Core to core: round trip of a cache line before and after the row.</p>"
    if heads.index("Core to core (ns)") not in used:
        note = ""
    table = table_html(
        f"All rows of {escape(source.label)}", [heads[i] for i in used], [[row[i] for i in used] for row in rows]
    )
    return table + note
