# SPDX-License-Identifier: Apache-2.0
"""Judges the claims about setting up connections, threads and processor time."""

from __future__ import annotations

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.scale.evidence import CONSTANT, by_clients, counts, line_of
from report.scale.rows import Row, Source

MANY = 1000  # clients: less says nothing of scale
EXTREME = 10_000
CORE_PERCENT = 100.0  # "manageable": the server keeps within one core
SPEED = "connections_per_s"


def psn_exchange_over_tls(source: Source) -> Finding:
    rows = [row for row in _plain_rdma(source) if row.words["connect"] == "tls-psn" and row.get("success_percent")]
    evidence = [line_of(row, f"{row.values['success_percent']:.4g} % good, set up over TLS") for row in rows]
    many = [row for row in rows if row.clients >= MANY]
    if not many:
        return Finding(NOT_TESTABLE, f"needs a row of {MANY} clients and more over RDMA (--connect tls-psn)", evidence)
    if failed := [row for row in many if row.values["success_percent"] < 100]:
        return Finding(CONTRADICTED, f"exchanges failed at {counts(failed)} clients", evidence)
    because = (
        f"{many[-1].clients} clients exchanged their PSNs over TLS 1.3 with both ends verified, and every echo came; "
        "this protects the exchange alone: each packet has its PSN in the clear (docs/security.md)"
    )
    return Finding(SUPPORTED, because, evidence)


def connecting_scales(source: Source) -> Finding:
    rows = [row for row in _plain_rdma(source) if row.get(SPEED) and not row.rate and row.clients >= 100]
    evidence = [line_of(row, f"{row.values[SPEED]:.0f} connections per second") for row in rows]
    if not rows or rows[-1].clients < EXTREME:
        return Finding(NOT_TESTABLE, f"needs rows from 100 to {EXTREME} clients and more over RDMA", evidence)
    best = max(rows, key=lambda row: row.values[SPEED])
    last = rows[-1]
    because = (
        f"{last.values[SPEED]:.0f} connections per second up to {last.clients} clients, at best "
        f"{best.values[SPEED]:.0f} up to {best.clients}"
    )
    return Finding(
        SUPPORTED if last.values[SPEED] * CONSTANT >= best.values[SPEED] else CONTRADICTED, because, evidence
    )


def thread_creation(source: Source) -> Finding:
    """Compare setting up clients of the server with a thread for each with the event-driven one."""
    found = [pair for pair in source.both_engines() if pair.one.get(SPEED) and pair.other.get(SPEED)]
    pairs = [(pair.one, pair.other) for pair in found if pair.counts]
    evidence = [
        f"{own.clients} clients: {own.values[SPEED]:.0f} connections per second with a thread for each, "
        f"{shared.values[SPEED]:.0f} without"
        for shared, own in pairs
    ]
    evidence += [f"{pair.one.clients} clients: left out ({pair.obstacle})" for pair in found if pair.obstacle]
    above = [pair for pair in pairs if pair[1].clients > MANY]
    if not above:
        because = f"needs rows of more than {MANY} clients of both engines (--engine epoll,threads --clients 2000)"
        return Finding(NOT_TESTABLE, because, evidence)
    shared, own = above[-1]
    slower = shared.interval(SPEED)[0] / own.interval(SPEED)[2]
    faster = shared.interval(SPEED)[2] / own.interval(SPEED)[0]
    because = (
        f"at {own.clients} clients the event-driven server sets up {shared.values[SPEED] / own.values[SPEED]:.2f} "
        "times as many clients a second as the one with a thread for each"
    )
    if slower > CONSTANT:
        return Finding(SUPPORTED, because, evidence)
    return Finding(CONTRADICTED if faster < CONSTANT else NOT_TESTABLE, because, evidence)


def cpu_manageable(source: Source) -> Finding:
    rows = [row for row in source.cells("rdma", paced=True) if row.get("server_cpu_percent") is not None]
    evidence = [
        line_of(row, f"{row.values['server_cpu_percent']:.3g} % of a core in the server")
        for row in by_clients(source.rows, "server_cpu_percent")
        if row.rate
    ]
    if not rows:
        return Finding(NOT_TESTABLE, "needs rows at an offered rate (--rate): at full load a server uses all", evidence)
    most = max(rows, key=lambda row: row.values["server_cpu_percent"])
    because = (
        f"at {most.rate:.0f} messages per second the server uses at most {most.values['server_cpu_percent']:.3g} % of "
        f"a core, at {most.clients} clients"
    )
    if most.values["server_cpu_percent"] > CORE_PERCENT:
        return Finding(CONTRADICTED, because, evidence)
    if rows[-1].clients < EXTREME:
        return Finding(NOT_TESTABLE, f"{because}, but there is no row of {EXTREME} clients", evidence)
    return Finding(SUPPORTED, because, evidence)


def _plain_rdma(source: Source) -> list[Row]:
    """Return usable rows over RDMA of the event-driven server, by clients."""
    rows = [row for row in source.plain if row.transport == "rdma" and row.engine != "threads"]
    return sorted(rows, key=lambda row: row.clients)
