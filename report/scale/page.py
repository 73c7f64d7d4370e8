"""One self-contained HTML page for many clients: pictures, verdicts and rows, every sentence and figure made from the tables."""

from __future__ import annotations

from html import escape

from report.claims import Judgement, read_claims
from report.html_parts import document, finding_html, mark_html, picture_html, table_html
from report.plots import Picture
from report.scale.rows import Row, Source

MARKS = {"valid": "good", "suspect": "doubt", "not comparable": "doubt", "invalid": "bad"}
COLUMNS = {
    "qps": "QPs",
    "rate": "Offered (messages/s)",
    "success_percent": "Success (%)",
    "avg_connect_ms": "Connect, average (ms)",
    "connect_p50_ms": "p50 (ms)",
    "connect_p99_ms": "p99 (ms)",
    "connections_per_s": "Connections/s",
    "messages_per_second": "Echoes/s",
    "avg_latency_ms": "Latency, average (ms)",
    "latency_p50_ms": "p50 (ms)",
    "latency_p99_ms": "p99 (ms)",
    "latency_max_ms": "Most (ms)",
    "jain": "Jain's index",
    "doorbells_per_echo": "Doorbells an echo",
    "server_kib_per_connection": "Server memory a connection (KiB)",
    "peak_memory_mb": "Peak memory (MB)",
    "peak_threads": "Threads",
    "server_cpu_percent": "Server CPU (% of a core)",
    "server_idle_cpu_percent": "Server CPU, all idle (%)",
    "server_switches_per_s": "Server's context switches/s",
    "peak_clients": "Clients at once",
    "distinct_ids": "Different logical clients",
    "redis_per_second": "redis (requests/s)",
    "over_redis": "Times redis",
    "round_trip_ns": "Core to core (ns)",
}
WITH_INTERVAL = ("messages_per_second",)


def render(sources: list[Source], pictures: list[Picture], judged: dict[str, list[Judgement]], published: Source) -> str:
    """The page for `sources`, with `judged` by source label; `published` stands beside them unless it is one of them."""
    beside = [] if any(source.published for source in sources) else [published]
    sections = [
        ("Pictures", "".join(picture_html(picture) for picture in pictures)),
        ("Published claims", _claims(judged)),
        ("Rows", "".join(_rows(source) for source in [*sources, *beside])),
        ("Environment", "".join(_environment(source) for source in sources)),
    ]
    kinds = "; ".join(f"<strong>{escape(source.label)}</strong>: {escape(source.kind_text)}" for source in sources)
    lead = (
        "Every client is a connection of its own, and none sends before all are connected. A message counts when its client has "
        f"verified the echo and the server has counted it. {kinds}."
    )
    return document("Many clients of one server", lead, sections)


def _claims(judged: dict[str, list[Judgement]]) -> str:
    rows = [
        (
            escape(claim.id),
            f"<td class=text>{escape(claim.sentence)}</td>",
            *(f"<td class=text>{finding_html(judgements[number].finding)}</td>" for judgements in judged.values()),
        )
        for number, claim in enumerate(read_claims("connection_scale"))
    ]
    heads = ("Claim", "Published sentence", *(f"By {escape(label)}" for label in judged))
    note = "<p>Each published sentence is judged from the rows over RDMA of each table. Only valid rows bear anything out.</p>"
    return note + table_html("Claims and verdicts", heads, rows)


def _rows(source: Source) -> str:
    used = [name for name in COLUMNS if any(row.get(name) for row in source.rows)]
    rows = [
        (
            escape(_name(row)),
            *(_number(row, name) for name in used),
            mark_html(MARKS.get(row.validity, "none"), row.validity),
            f"<td class=text>{escape(row.reason)}</td>",
        )
        for row in source.rows
    ]
    return table_html(f"All rows of {escape(source.label)}", ("Clients", *(COLUMNS[name] for name in used), "Validity", "Reason"), rows)


def _name(row: Row) -> str:
    kinds = ["shared" if row.shared else "", "threads" if row.engine == "threads" else "", row.apart]
    return " ".join(filter(None, [f"{row.clients:,}", row.transport, *kinds]))


def _number(row: Row, name: str) -> str:
    if row.get(name) is None:
        return ""
    if name in WITH_INTERVAL and f"{name}_low" in row.values:
        low, middle, high = (_digits(value) for value in row.interval(name))
        return f"{middle} [{low}, {high}]"
    return _digits(row.values[name])


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def _environment(source: Source) -> str:
    if source.published:
        return f"<p>{escape(source.label)}: the published table names no device, CPU or kernel.</p>"
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in source.environment.items())
    return f"<h3>{escape(source.label)}</h3><dl>{items or '<dd>The file has no environment block.</dd>'}</dl>"
