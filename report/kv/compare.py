# SPDX-License-Identifier: Apache-2.0
"""Compares the ways in which values travel, the transports, and other stores with ours."""

from __future__ import annotations

from report.compare import Comparison, Pair, Question, paired, repeated
from report.kv.rows import AUTO, EAGER, ONE_SIDED, OURS, RATE, RENDEZVOUS, Row, Source, size_text

COUNTS = "An operation counts when its answer has arrived; the value of a GET is compared with the one that was set."
PROTOCOLS = Question("Eager against rendezvous", "eager", "rendezvous", "operations/s", COUNTS)
TRANSPORTS = Question("RDMA against TCP, the store", "TCP", "RDMA", "operations/s", COUNTS)
READS = Question("One-sided GETs against those by message", "by message", "one-sided", "operations/s")


def compare_all(source: Source) -> list[Comparison]:
    compared = [_comparison(PROTOCOLS, pair) for pair in source.drawn_pairs()]
    plain = [row for row in source.rows if not row.varied and row.system == OURS]
    tcp, rdma = ([row for row in plain if row.transport == each] for each in ("tcp", "rdma"))
    by_transport = paired(tcp, rdma, lambda row: (row.way, row.size, row.load[:3], row.settings))
    compared += [_comparison(TRANSPORTS, pair) for pair in by_transport]
    compared += [_comparison(READS, pair) for pair in _reads(source)]
    return compared + _beside(source)


def _reads(source: Source) -> list[Pair[Row]]:
    """Pair one-sided GETs with those by message: auto's, or else those by rendezvous, or eager."""
    found: dict[tuple[object, ...], Pair[Row]] = {}
    for way in (EAGER, RENDEZVOUS, AUTO):
        pairs = paired(source.drawn(way), source.drawn(ONE_SIDED), lambda row: row.cell)
        found |= {pair.other.cell: pair for pair in pairs}
    return [found[cell] for cell in dict.fromkeys(row.cell for row in source.drawn(ONE_SIDED)) if cell in found]


def _beside(source: Source) -> list[Comparison]:
    """Compare our rows with those of other systems that had the same work."""
    found = []
    for load in source.loads():
        rivals = [row for each in source.rivals(load).values() for row in each]
        ours = [row for way in (AUTO, ONE_SIDED) for row in source.drawn(way, load)]
        twice = repeated([*rivals, *ours], _work)
        for own in ours:
            for other in rivals:
                if _work(own)[1:] == _work(other)[1:]:
                    question = Question(f"Ours against {other.system}, the store", other.way, "ours", "operations/s")
                    either = bool({_work(own), _work(other)} & twice)
                    found.append(Comparison(question, f"{own.way}, {other.way}", own.name, RATE, other, own, either))
    return found


def _work(row: Row) -> tuple[object, ...]:
    """Return the way, and the work that other systems must share: they have no depths."""
    return row.way, *(row.get(name) for name in ("value_bytes", "iters", "warmup"))


def _comparison(question: Question, pair: Pair[Row]) -> Comparison:
    one, other = pair.one, pair.other
    op, window, clients, transport = other.load
    many = f", {clients} clients" if clients > 1 else ""
    group = f"{op}, window {window}{many}" + (", tcp" if transport == "tcp" else "")
    way = f" {other.way}" if question is TRANSPORTS else ""
    return Comparison(
        question, group, f"{op}{way} {size_text(other.size)}, window {window}{many}", RATE, one, other, pair.twice
    )
