"""The page of many clients: pictures, verdicts and rows, all generated from the tables."""

from __future__ import annotations

from functools import partial
from html import escape

from report import page
from report.html_parts import table_html
from report.scale.rows import Row, Source

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
    "latency_max_ms": "Maximum (ms)",
    "jain": "Jain's index",
    "doorbells_per_echo": "Doorbells per echo",
    "server_kib_per_connection": "Server memory per connection (KiB)",
    "peak_memory_mb": "Peak memory (MB)",
    "peak_threads": "Threads",
    "server_cpu_percent": "Server CPU (% of a core)",
    "server_idle_cpu_percent": "Server CPU, all clients idle (%)",
    "server_switches_per_s": "Server's context switches/s",
    "peak_clients": "Clients connected at once",
    "distinct_ids": "Different logical clients",
    "round_trip_ns": "Core to core (ns)",
}


def _name(row: Row) -> str:
    kinds = [
        row.system if row.is_rival else "",
        "shared" if row.shared else "",
        "threads" if row.engine == "threads" else "",
        row.apart,
    ]
    return " ".join(filter(None, [f"{row.clients:,}", row.transport, *kinds]))


RATE = "messages_per_second"


def _engines(source: Source) -> list[tuple[str, str]]:
    """Compare io_uring with epoll where both were measured."""
    rows = []
    for epoll, uring in source.engine_pairs():
        if epoll.get(RATE) is None or uring.get(RATE) is None:
            continue
        (low, middle, high), (epoll_low, epoll_middle, epoll_high) = uring.interval(RATE), epoll.interval(RATE)
        ahead = "io_uring" if low > epoll_high else "epoll" if epoll_low > high else "no significant difference"
        both = [
            page.number_text(row, name) for name in ("latency_p50_ms", "server_cpu_percent") for row in (epoll, uring)
        ]
        rows.append(
            (
                escape(_name(epoll)),
                page.number_text(epoll, RATE, True),
                page.number_text(uring, RATE, True),
                f"{middle / epoll_middle:.2f} [{low / epoll_high:.2f}, {high / epoll_low:.2f}]",
                f"<td class=text>{ahead}</td>",
                *both,
            )
        )
    heads = (
        "Clients",
        "epoll (echoes/s)",
        "io_uring (echoes/s)",
        "io_uring/epoll",
        "Ahead",
        "epoll p50 (ms)",
        "io_uring p50 (ms)",
        "epoll CPU (%)",
        "io_uring CPU (%)",
    )
    return (
        [("io_uring beside epoll", table_html(f"The same work by both, {escape(source.label)}", heads, rows))]
        if rows
        else []
    )


def _rivals(source: Source) -> list[tuple[str, str]]:
    """Compare our rows with those of rivals that did the same work."""
    rows = []
    for ours, rival in source.rival_pairs():
        if not ours.get(RATE) or not rival.get(RATE):
            continue
        (low, middle, high), (rival_low, rival_middle, rival_high) = ours.interval(RATE), rival.interval(RATE)
        ahead = "ours" if low > rival_high else rival.system if rival_low > high else "no significant difference"
        rows.append(
            (
                escape(_name(ours)),
                page.number_text(ours, RATE, True),
                page.number_text(rival, RATE, True),
                f"{middle / rival_middle:.2f} [{low / rival_high:.2f}, {high / rival_low:.2f}]",
                f"<td class=text>{escape(ahead)}</td>",
                *(page.number_text(row, "latency_p99_ms") for row in (ours, rival)),
            )
        )
    heads = (
        "Clients",
        "Ours (echoes/s)",
        "redis (requests/s)",
        "Ours/redis",
        "Ahead",
        "Our p99 (ms)",
        "redis p99 (ms)",
    )
    caption = f"redis-benchmark verifies no answer; same number of clients and bytes, {escape(source.label)}"
    return [("redis beside ours", table_html(caption, heads, rows))] if rows else []


LAYOUT = page.Layout(
    title="Many clients of one server",
    lead=(
        "Every client is a connection of its own, and none sends before all are connected. A message counts when "
        "its client has "
        "verified the echo and the server has counted it."
    ),
    claims_note="Each published sentence is judged from the rows over RDMA of each table. Only valid rows count.",
    first="Clients",
    name=_name,
    columns=COLUMNS,
    with_interval=(RATE,),
    more=lambda source: _engines(source) + _rivals(source),
)
render = partial(page.render, LAYOUT)
