# SPDX-License-Identifier: Apache-2.0
"""Compares the rows of many clients that did the same work: RDMA and TCP, two engines, rivals."""

from __future__ import annotations

from report.compare import Comparison, Question
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

    def work(row: Row) -> tuple[object, ...]:
        numbers = tuple(row.values.get(name, 0.0) for name in ("clients", "size", "window"))
        return row.engine, row.words["connect"], *numbers

    rows = [row for row in source.rows if row.is_plain and not row.rate and row.get(RATE) is not None]
    tcp = {work(row): row for row in rows if row.transport == "tcp"}
    return [
        _comparison(TRANSPORTS, tcp.get(work(row)), row, f"{row.clients:,} clients, {row.engine}")
        for row in rows
        if row.transport == "rdma" and work(row) in tcp
    ]


def _engines(source: Source) -> list[Comparison]:
    by_epoll = {row.work: row for row in source.rows if row.engine == "epoll"}
    pairs = [(by_epoll.get(row.work), row) for row in source.rows if row.engine == "uring" and not row.rate]
    return [_comparison(ENGINES, epoll, uring, epoll.name) for epoll, uring in pairs if epoll]


def _rivals(source: Source) -> list[Comparison]:
    """Compare our rows with those of rivals that had the same number of clients and bytes."""

    def work(row: Row) -> tuple[float, ...]:
        return tuple(row.values.get(name, 0.0) for name in ("clients", "rate", "size", "window"))

    ours = [row for row in source.rows if row.is_plain and row.engine != "threads"]
    return [
        _comparison(_beside(rival.system), rival, row, row.name)
        for row in ours
        for rival in source.rows
        if rival.is_rival and work(row) == work(rival)
    ]


def _beside(system: str) -> Question:
    note = "The same number of clients and bytes; redis-benchmark verifies no answer." if system == "redis" else ""
    return Question(f"Ours against {system}, many clients", system, "ours", "echoes/s", note)


def _comparison(question: Question, one: Row | None, other: Row, where: str) -> Comparison:
    return Comparison(question, "", where, RATE, one, other)
