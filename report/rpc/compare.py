# SPDX-License-Identifier: Apache-2.0
"""Compares calls: RDMA with TCP, a behaviour with its absence, and other systems with ours."""

from __future__ import annotations

from report.compare import Comparison, Question, paired, repeated
from report.rpc.rows import Row, Source

RATE = "qps"
TRANSPORTS = Question(
    "RDMA against TCP, calls",
    "TCP",
    "RDMA",
    "requests/s",
    "A request counts when its answer was checked. Sink: the answer is a short word. Echo: the answer is the request's "
    "bytes.",
)
BEHAVIOURS = Question(
    "Gain of each behaviour",
    "without",
    "with",
    "requests/s",
    "Each cell ran in turn with and without one behaviour. Behaviours that do not help are listed too.",
)


def compare_all(source: Source) -> list[Comparison]:
    ours = [row for row in source.rows if not row.apart]
    tcp, rdma = ([row for row in ours if row.transport == each] for each in ("tcp", "rdma"))
    compared = [
        Comparison(
            TRANSPORTS,
            f"{pair.other.concurrency} in flight",
            _where(pair.other),
            RATE,
            pair.one,
            pair.other,
            pair.twice,
        )
        for pair in paired(tcp, rdma, lambda row: row.cell[1:])
    ]
    for name in dict.fromkeys(row.ablation for row in source.rows if row.ablation):
        for pair in source.ablated(name):
            group, on = f"{name}, {pair.other.transport}", pair.other
            where = f"{name}: {_where(on)}, {on.transport}"
            compared.append(Comparison(BEHAVIOURS, group, where, RATE, pair.one, on, pair.twice))
    own = {row.cell: row for row in ours}
    rivals = [row for row in source.rows if row.rival]
    twice = repeated([*ours, *rivals], lambda row: (row.rival, row.cell))
    for row in rivals:
        if row.cell in own:
            question = Question(f"Ours against {row.rival}, calls", row.rival, "ours", "requests/s")
            where = f"{_where(row)}, {row.transport}"
            either = bool({("", row.cell), (row.rival, row.cell)} & twice)
            compared.append(Comparison(question, row.transport, where, RATE, row, own[row.cell], either))
    return compared


def _where(row: Row) -> str:
    mode = f", {row.mode}" if row.mode != "sink" else ""
    return f"{row.words['request_size']}, {row.concurrency} in flight{mode}"
