# SPDX-License-Identifier: Apache-2.0
"""Compares the ways in which values travel, the transports, and other stores with ours."""

from __future__ import annotations

from report.compare import Comparison, Question
from report.kv.rows import AUTO, EAGER, ONE_SIDED, OURS, RATE, RENDEZVOUS, Row, Source, size_text

COUNTS = "An operation counts when its answer has arrived; the value of a GET is compared with the one that was set."
PROTOCOLS = Question("Eager against rendezvous", "eager", "rendezvous", "operations/s", COUNTS)
TRANSPORTS = Question("RDMA against TCP, the store", "TCP", "RDMA", "operations/s", COUNTS)
READS = Question("One-sided GETs against those by message", "by message", "one-sided", "operations/s")


def compare_all(source: Source) -> list[Comparison]:
    compared = [_comparison(PROTOCOLS, eager, other) for eager, other in source.drawn_pairs()]
    plain = [row for row in source.rows if not row.varied and row.system == OURS]
    tcp = {(row.way, row.size, row.load[:3]): row for row in plain if row.transport == "tcp"}
    for row in plain:
        other = tcp.get((row.way, row.size, row.load[:3])) if row.transport == "rdma" else None
        if other is not None:
            compared.append(_comparison(TRANSPORTS, other, row))
    by_message = {(row.size, row.load): row for way in (EAGER, RENDEZVOUS, AUTO) for row in source.drawn(way)}
    for row in source.drawn(ONE_SIDED):
        if (row.size, row.load) in by_message:
            compared.append(_comparison(READS, by_message[row.size, row.load], row))
    return compared + _beside(source)


def _beside(source: Source) -> list[Comparison]:
    """Compare our rows with those of other systems that had the same work."""
    found = []
    for load in source.loads():
        rivals = [row for each in source.rivals(load).values() for row in each]
        for own in (row for way in (AUTO, ONE_SIDED) for row in source.drawn(way, load)):
            for other in rivals:
                if all(own.values.get(name) == other.values.get(name) for name in ("value_bytes", "iters", "warmup")):
                    question = Question(f"Ours against {other.system}, the store", other.way, "ours", "operations/s")
                    found.append(Comparison(question, f"{own.way}, {other.way}", own.name, RATE, other, own))
    return found


def _comparison(question: Question, one: Row, other: Row) -> Comparison:
    op, window, clients, transport = other.load
    many = f", {clients} clients" if clients > 1 else ""
    group = f"{op}, window {window}{many}" + (", tcp" if transport == "tcp" else "")
    way = f" {other.way}" if question is TRANSPORTS else ""
    return Comparison(question, group, f"{op}{way} {size_text(other.size)}, window {window}{many}", RATE, one, other)
