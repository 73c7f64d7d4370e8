# SPDX-License-Identifier: Apache-2.0
"""Compares the rows of many clients that did the same work: RDMA and TCP, two engines, rivals."""

from __future__ import annotations

from report.compare import Comparison, Pair, Question, paired, repeated
from report.scale.rows import Row, Source

RATE = "messages_per_second"
TRANSPORTS = Question(
    "RDMA against TCP, many clients",
    "TCP",
    "RDMA",
    "echoes/s",
    "Every client is a connection of its own with TLS, and sends when its echo has arrived.",
)
ENGINES = Question("io_uring against epoll", "epoll", "io_uring", "echoes/s", "The same work by both servers.")


def compare_all(source: Source) -> list[Comparison]:
    return [*_transports(source), *_engines(source), *_rivals(source)]


def _transports(source: Source) -> list[Comparison]:
    """A row at an offered rate says nothing about which is faster."""
    rows = [row for row in source.rows if row.is_plain and not row.rate and row.get(RATE) is not None]
    tcp, rdma = ([row for row in rows if row.transport == each] for each in ("tcp", "rdma"))
    pairs = paired(tcp, rdma, lambda row: (row.engine, row.clients, *row.load))
    return [_comparison(TRANSPORTS, pair, f"{pair.other.clients:,} clients, {pair.other.engine}") for pair in pairs]


def _engines(source: Source) -> list[Comparison]:
    epoll, uring = ([row for row in source.rows if row.engine == each and not row.rate] for each in ("epoll", "uring"))
    pairs = paired(epoll, uring, lambda row: row.work)
    return [_comparison(ENGINES, pair, pair.one.name) for pair in pairs]


def _rivals(source: Source) -> list[Comparison]:
    """Compare our rows with those of rivals that had the same number of clients and bytes."""

    def work(row: Row) -> tuple[float, ...]:
        return tuple(row.values.get(name, 0.0) for name in ("clients", "rate", "size", "window"))

    def cell(row: Row) -> tuple[object, ...]:
        return row.is_rival and row.system, row.transport, *work(row)

    ours = [row for row in source.rows if row.is_plain and row.engine != "threads"]
    rivals = [row for row in source.rows if row.is_rival]
    twice = repeated([*ours, *rivals], cell)
    return [
        _comparison(_beside(rival.system), Pair(rival, row, bool({cell(row), cell(rival)} & twice)), row.name)
        for row in ours
        for rival in rivals
        if work(row) == work(rival)
    ]


def _beside(system: str) -> Question:
    note = "The same number of clients and bytes; redis-benchmark verifies no answer." if system == "redis" else ""
    return Question(f"Ours against {system}, many clients", system, "ours", "echoes/s", note)


def _comparison(question: Question, pair: Pair[Row], where: str) -> Comparison:
    return Comparison(question, "", where, RATE, pair.one, pair.other, pair.twice)
