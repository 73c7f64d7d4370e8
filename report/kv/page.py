"""The page of the key-value store: pictures, verdicts, comparison of the protocols, and rows."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from html import escape

from report import page
from report.claims import Judgement
from report.html_parts import finding_html, table_html
from report.kv import goals
from report.kv.rows import AUTO, EAGER, ONE_SIDED, RATE, RENDEZVOUS, TIMES_ALONE, Row, Source, size_text

COLUMNS = {
    "gigabytes_per_second": "GB/s",
    "gibibytes_per_second": "GiB/s",
    "operations_per_second": "Operations/s",
    "p50_us": "P50 (µs)",
    "p99_us": "P99 (µs)",
    TIMES_ALONE: "P99 relative to that without stalled clients",
    "depth": "Under way, mean",
    "messages_per_operation": "Messages per operation",
    "one_sided_per_operation": "One-sided READs per operation",
    "stalled": "Stalled clients",
    "rx_depth": "Receive depth",
    "warmup": "Warm-up",
    "iters": "Operations asked for",
    "operations": "Operations timed",
    "reps": "Repetitions",
    "spread": "Spread of repetitions",
}


def _more(source: Source) -> list[tuple[str, str]]:
    rows = [
        (escape(judgement.claim.id), f"<td class=text>{escape(judgement.claim.sentence)}</td>", _finding(judgement))
        for judgement in goals.judge_all(source)
    ]
    heads = ("Goal", "Note", f"By {escape(source.label)}")
    return [
        ("Goals of this store", table_html(f"Goals, {escape(source.label)}", heads, rows)),
        *_ahead(source),
        *_beside(source),
    ]


def _finding(judgement: Judgement) -> str:
    return f"<td class=text>{finding_html(judgement.finding)}</td>"


def json_more(source: Source) -> dict[str, object]:
    return {"promises": [asdict(judgement) for judgement in goals.judge_all(source)]}


def _ahead(source: Source) -> list[tuple[str, str]]:
    pairs = source.pairs()
    if not pairs:
        return []
    auto = {(row.load, row.size): ratio for row, ratio in goals.auto_ratios(source)}
    rows = []
    for eager, other in pairs:
        (low, middle, high), (eager_low, eager_middle, eager_high) = other.interval(RATE), eager.interval(RATE)
        ahead = RENDEZVOUS if low > eager_high else EAGER if eager_low > high else "no significant difference"
        chosen = auto.get((eager.load, eager.size))
        rows.append(
            (
                escape(f"{eager.op} {size_text(eager.size)}, window {eager.window}"),
                page.number_text(eager, RATE, True),
                page.number_text(other, RATE, True),
                f"{middle / eager_middle:.2f} [{low / eager_high:.2f}, {high / eager_low:.2f}]",
                f"<td class=text>{ahead}</td>",
                "{1:.2f} [{0:.2f}, {2:.2f}]".format(*chosen) if chosen else "",
            )
        )
    heads = ("Cell", "Eager (/s)", "Rendezvous (/s)", "Rendezvous/eager", "Ahead", "auto/better protocol")
    return [("Where each protocol is ahead", table_html(f"Eager and rendezvous, {escape(source.label)}", heads, rows))]


def _beside(source: Source) -> list[tuple[str, str]]:
    """Compare our rows with those of other systems that had the same work."""
    rows = []
    for load in source.loads():
        rivals = [row for each in source.rivals(load).values() for row in each]
        ours = [row for way in (AUTO, ONE_SIDED) for row in source.cells(way, load)]
        for own in ours:
            rows += [_beside_row(own, other) for other in rivals if _same_work(own, other)]
    if not rows:
        return []
    heads = ("Cell", "Ours (/s)", "Beside", "Theirs (/s)", "Ours/theirs")
    return [("Other systems", table_html(f"Other systems, {escape(source.label)}", heads, rows))]


def _same_work(own: Row, other: Row) -> bool:
    return all(own.values.get(name) == other.values.get(name) for name in ("value_bytes", "iters", "warmup"))


def _beside_row(own: Row, other: Row) -> tuple[str, ...]:
    (low, middle, high), (other_low, other_middle, other_high) = own.interval(RATE), other.interval(RATE)
    return (
        escape(own.name),
        page.number_text(own, RATE, True),
        f"<td class=text>{escape(other.way)}</td>",
        page.number_text(other, RATE, True),
        f"{middle / other_middle:.2f} [{low / other_high:.2f}, {high / other_low:.2f}]",
    )


LAYOUT = page.Layout(
    title="The key-value store: eager, rendezvous, one-sided",
    lead=(
        "An operation counts when its answer has arrived; the value of a GET is compared with the one that was set. "
        "GB/s are 10⁹ bytes of values per second."
    ),
    claims_note=(
        "Each published sentence is judged from the rows of each table. Suspect, mislabelled and invalid rows "
        "support no claim. The "
        "published table has no size with both protocols, so it cannot show which one is faster."
    ),
    first="Cell",
    name=lambda row: row.name,
    columns=COLUMNS,
    with_interval=("gigabytes_per_second", TIMES_ALONE),
    more=_more,
)
render = partial(page.render, LAYOUT)
