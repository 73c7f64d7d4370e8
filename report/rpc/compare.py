# SPDX-License-Identifier: Apache-2.0
"""Compares calls: RDMA with TCP, a behaviour with its absence, and other systems with ours."""

from __future__ import annotations

from report.compare import Comparison, Question
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
    tcp = {row.cell: row for row in ours if row.transport == "tcp"}
    pairs = [(tcp.get(("tcp", *row.cell[1:])), row) for row in ours if row.transport == "rdma"]
    compared = [
        Comparison(TRANSPORTS, f"{row.concurrency} in flight", _where(row), RATE, other, row)
        for other, row in pairs
        if other is not None
    ]
    for name in dict.fromkeys(row.ablation for row in source.rows if row.ablation):
        compared += [
            Comparison(BEHAVIOURS, f"{name}, {on.transport}", f"{name}: {_where(on)}, {on.transport}", RATE, off, on)
            for on, off in source.ablated(name)
        ]
    own = {row.cell: row for row in ours}
    for row in source.rows:
        if row.rival and row.cell in own:
            question = Question(f"Ours against {row.rival}, calls", row.rival, "ours", "requests/s")
            compared.append(
                Comparison(question, row.transport, f"{_where(row)}, {row.transport}", RATE, row, own[row.cell])
            )
    return compared


def _where(row: Row) -> str:
    mode = f", {row.mode}" if row.mode != "sink" else ""
    return f"{row.words['request_size']}, {row.concurrency} in flight{mode}"
