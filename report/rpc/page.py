"""The page of calls: pictures, verdicts, the gain of each behaviour, other systems and rows."""

from __future__ import annotations

from functools import partial
from html import escape

from report import page
from report.html_parts import table_html
from report.rpc.rows import Row, Source

COLUMNS = {
    "gigabits_per_second": "Gb/s",
    "p90_us": "P90 (µs)",
    "p99_us": "P99 (µs)",
    "qps": "Requests/s",
    "p50_us": "P50 (µs)",
    "p999_us": "P99.9 (µs)",
    "mean_us": "Mean (µs)",
    "connections": "Connections",
    "cpu_us_per_request": "CPU per request, both ends (µs)",
    "server_cpu_us_per_request": "of it the server (µs)",
    "requests_per_message": "Requests per message",
    "pinned_kib_per_connection": "Pinned per connection (KiB)",
    "requests": "Requests counted",
    "p9999_us": "P99.99 (µs)",
    "max_us": "Maximum (µs)",
}
ABLATIONS = ("inline", "coalescing", "send-queue", "pool", "connection-pool")


def _more(source: Source) -> list[tuple[str, str]]:
    sections = []
    pairs = [(name, on, off) for name in ABLATIONS for on, off in source.pairs(name)]
    if pairs:
        rows = [
            (
                escape(f"{name}, {on.words['request_size']} x {on.concurrency} {on.transport}"),
                page.number_text(on, "qps", True),
                page.number_text(off, "qps", True),
                _ratio(on, off),
                page.number_text(on, "p99_us", True),
                page.number_text(off, "p99_us", True),
                page.number_text(on, "cpu_us_per_request"),
                page.number_text(off, "cpu_us_per_request"),
            )
            for name, on, off in pairs
        ]
        heads = (
            "Behaviour",
            "Requests/s with",
            "without",
            "With/without",
            "P99 with (µs)",
            "without",
            "CPU with (µs)",
            "without",
        )
        note = (
            "<p>Each cell ran in turn with and without one behaviour. Behaviours that do not help are listed too.</p>"
        )
        sections.append(
            ("Gain of each behaviour", note + table_html(f"Behaviours, {escape(source.label)}", heads, rows))
        )
    ours = {row.cell: row for row in source.rows if row.usable and not row.apart}
    beside = [(row, ours.get(row.cell)) for row in source.rows if row.rival and row.usable]
    if beside:
        rows = [
            (
                escape(row.name),
                page.number_text(row, "qps", True),
                page.number_text(own, "qps", True),
                _ratio(own, row),
                page.number_text(row, "p99_us", True),
                page.number_text(own, "p99_us", True),
                page.number_text(row, "cpu_us_per_request"),
                page.number_text(own, "cpu_us_per_request"),
            )
            for row, own in beside
            if own is not None
        ]
        heads = ("Cell", "Requests/s", "ours", "Ours/theirs", "P99 (µs)", "ours", "CPU (µs)", "ours")
        sections.append(
            ("Comparison with other systems", table_html(f"Other systems, {escape(source.label)}", heads, rows))
        )
    return sections


def _ratio(on: Row, off: Row) -> str:
    low, middle, high = on.interval("qps")
    off_low, off_middle, off_high = off.interval("qps")
    return f"{middle / off_middle:.2f} [{low / off_high:.2f}, {high / off_low:.2f}]"


LAYOUT = page.Layout(
    title="Calls over TCP and RDMA",
    lead=(
        "A request counts when its answer was checked. Sink: the answer is a short word, as was published. "
        "Echo: the answer is the request's bytes."
    ),
    claims_note=(
        "Each published sentence is judged from the rows of each table. Suspect and invalid rows support no claim; "
        "a behaviour is judged "
        "from rows that ran in turn with and without it."
    ),
    first="Cell",
    name=lambda row: row.name,
    columns=COLUMNS,
    with_interval=("qps", "p99_us"),
    more=_more,
)
render = partial(page.render, LAYOUT)
