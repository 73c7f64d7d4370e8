# SPDX-License-Identifier: Apache-2.0
"""Judges the published claims about many clients from the rows of one table.

JUDGES has one function for each claim, by the claim's id in bench/published/claims.csv. Rows over
RDMA give the verdict, because the claims are about RDMA; rows over TCP are further evidence. A
claim that needs rows which the table does not have is not testable, and the finding says which
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding
from report.scale import limits, resources
from report.scale.evidence import CLIENTS_MIN, CONSTANT, at_once, by_clients, constant, counts, line_of, other_work
from report.scale.rows import Row, Source

COUNTS = (10, 100, 1000, 5000, 10000, 20000)
LATENCY_MAX_MS = 6.0
KIB_PER_CLIENT, KIB_TOLERANCE = 8.5 * 1000 / 1024, 0.25
# The claim's "extreme scale" is 20000 clients; a server with a thread for each client is tested
# with this many.
SWITCHING_CLIENTS = 300
CONTEXT_CLIENTS, SAVED_PERCENT = 100, 85.0
PEAK, PEAK_AT, FLOOR = 9656, 1000, 2000
ECHOES = "messages_per_second"

NEEDS_PACE = (
    "needs rows at an offered rate (--rate): if every client sends as fast as its echoes arrive, latency is the number "
    "of clients divided by the rate"
)

Judge = Callable[[Source], Finding]


def _not_of_the_published(judge: Judge) -> Judge:
    """Return a judge that finds the published rows unable to test a claim."""
    because = (
        "each row's clients did other work (-n, -d, -t), and the threads are far fewer than the clients that the "
        "table calls concurrent; the program that made them waits with usleep() and opens no connection"
    )
    return lambda source: Finding(NOT_TESTABLE, because) if source.published else judge(source)


def all_succeed(source: Source) -> Finding:
    rows = [
        row
        for row in source.rows
        if row.transport == "rdma"
        and row.validity in ("valid", "suspect")
        and not row.shared
        and row.engine != "threads"
    ]
    evidence = [
        line_of(row, f"{row.values['success_percent']:.4g} % good", at_once(row))
        for row in by_clients(source.rows, "success_percent")
    ]
    failed = [row for row in rows if row.values["success_percent"] < 100]
    if failed:
        return Finding(CONTRADICTED, f"clients failed at {counts(failed)} clients", evidence)
    missing = [str(count) for count in COUNTS if count not in {row.clients for row in rows}]
    if missing:
        return Finding(NOT_TESTABLE, f"no row with {', '.join(missing)} clients", evidence)
    unseen = [row for row in rows if row.get("peak_clients") != row.clients]
    if unseen:
        return Finding(
            NOT_TESTABLE,
            f"the server does not report that all were connected at once at {counts(unseen)} clients",
            evidence,
        )
    return Finding(SUPPORTED, "every client verified its echoes, and all were connected at once", evidence)


def connect_time_constant(source: Source) -> Finding:
    rows = source.cells("rdma") or source.cells("rdma", paced=True)
    evidence = [
        line_of(row, f"{row.values['avg_connect_ms']:.4g} ms on average")
        for row in by_clients(source.rows, "avg_connect_ms")
    ]
    note = "; the 15 ms were the mean of a random sleep of 10 to 20 ms"
    return constant(rows, "avg_connect_ms", "ms", "connecting takes", note, evidence)


def latency_flat(source: Source) -> Finding:
    rows, evidence = _paced(source)
    if not rows:
        return Finding(NOT_TESTABLE, NEEDS_PACE, evidence)
    return constant(
        rows, "avg_latency_ms", "ms", f"at {rows[0].rate:.0f} messages per second an echo takes", "", evidence
    )


def latency_below_maximum(source: Source) -> Finding:
    rows, evidence = _paced(source)
    rows = [row for row in rows if row.get("latency_max_ms") is not None]
    if not rows:
        return Finding(NOT_TESTABLE, NEEDS_PACE, evidence)
    most = max(rows, key=lambda row: row.values["latency_max_ms"])
    because = f"at most {most.values['latency_max_ms']:.3g} ms, at {most.clients} clients"
    if late := [row for row in rows if row.values["latency_max_ms"] > LATENCY_MAX_MS]:
        return Finding(CONTRADICTED, f"{because}; above {LATENCY_MAX_MS:.0f} ms at {counts(late)} clients", evidence)
    if rows[-1].clients < COUNTS[-1]:
        return Finding(NOT_TESTABLE, f"{because}, but there is no row of {COUNTS[-1]} clients", evidence)
    return Finding(SUPPORTED, because, evidence)


def _paced(source: Source) -> tuple[list[Row], list[str]]:
    """Return the rows at an offered rate, and lines of evidence."""
    evidence = [
        line_of(row, f"{row.values['avg_latency_ms']:.3g} ms on average, {row.values['latency_max_ms']:.3g} ms at most")
        for row in by_clients(source.rows, "avg_latency_ms")
        if row.get("latency_max_ms") is not None
    ]
    return source.cells("rdma", paced=True), evidence


def memory_linear(source: Source) -> Finding:
    name = "server_kib_per_connection"
    rows = [row for row in source.cells("rdma") or source.cells("rdma", paced=True) if row.get(name)]
    evidence = [line_of(row, f"{row.values[name]:.4g} KiB per connection") for row in by_clients(source.rows, name)]
    rows = [row for row in rows if row.clients >= 1000]
    if len(rows) < 2 or rows[-1].clients < 10 * rows[0].clients:
        return Finding(
            NOT_TESTABLE, "needs rows from 1000 to 10000 clients and more: with fewer, fixed costs dominate", evidence
        )
    if obstacle := other_work(rows):
        return Finding(NOT_TESTABLE, obstacle, evidence)
    # The difference between rows leaves out the memory of a server without clients.
    first, last = rows[0], rows[-1]
    slope = (last.values[name] * last.clients - first.values[name] * first.clients) / (last.clients - first.clients)
    each = [
        (b.values[name] * b.clients - a.values[name] * a.clients) / (b.clients - a.clients) for a, b in pairwise(rows)
    ]
    because = (
        f"the server grows by {slope:.3g} KiB for each further client, {min(each):.3g} to {max(each):.3g} between "
        "neighbouring rows"
    )
    if min(each) <= 0 or max(each) > 2 * min(each):
        return Finding(CONTRADICTED, f"{because}: not linear", evidence)
    if abs(slope - KIB_PER_CLIENT) > KIB_TOLERANCE * KIB_PER_CLIENT:
        return Finding(CONTRADICTED, f"linear, but {because}, not 8.5 KB", evidence)
    return Finding(SUPPORTED, because, evidence)


def threads_for_clients(source: Source) -> Finding:
    rows = by_clients([row for row in source.rows if row.usable], "peak_threads")
    evidence = [line_of(row, f"{row.values['peak_threads']:.0f} threads") for row in rows]
    own = [row for row in source.threads() if row.get("peak_threads")]
    others = [row for row in source.plain if row.engine != "threads" and row.get("peak_threads")]
    seen = sorted({int(row.values["peak_threads"]) for row in others})
    ours = (
        f"; the event-driven server has {' to '.join(map(str, seen))} threads for any number of clients" if seen else ""
    )
    if not own:
        return Finding(
            NOT_TESTABLE,
            f"needs rows of the engine with a thread for each client (--engine epoll,threads){ours}",
            evidence,
        )
    most = own[-1]
    because = (
        f"with a thread for each client, {most.clients} clients at once take {most.values['peak_threads']:.0f} "
        f"threads{ours}"
    )
    # Fewer threads than clients means that the clients were not connected at once, as in the
    # published program.
    near = 0.5 / 16 <= most.values["peak_threads"] / most.clients <= 2 / 16
    return Finding(SUPPORTED if near else CONTRADICTED, because, evidence)


def throughput_peaks_at_1000(source: Source) -> Finding:
    rows, evidence = _unpaced(source)
    if PEAK_AT not in {row.clients for row in rows} or len(rows) < CLIENTS_MIN:
        because = f"needs rows of {PEAK_AT} clients and of {CLIENTS_MIN - 1} other numbers that sent as fast as echoes "
        return Finding(NOT_TESTABLE, because + "arrived", evidence)
    if obstacle := other_work(rows):
        return Finding(NOT_TESTABLE, obstacle, evidence)
    top = max(rows, key=lambda row: row.values[ECHOES])
    at_1000 = next(row for row in rows if row.clients == PEAK_AT)
    because = f"with equal work the peak is {top.values[ECHOES]:.0f}/s at {top.clients} clients"
    if top is not at_1000:
        if top.interval(ECHOES)[0] > at_1000.interval(ECHOES)[2]:
            return Finding(CONTRADICTED, f"{because}; it is not at {PEAK_AT} clients", evidence)
        return Finding(NOT_TESTABLE, f"{because}; the intervals of that and of {PEAK_AT} clients overlap", evidence)
    low, _, high = at_1000.interval(ECHOES)
    if not low <= PEAK <= high:
        return Finding(CONTRADICTED, f"{because}; not {PEAK}", evidence)
    return Finding(SUPPORTED, because, evidence)


def throughput_stays_above(source: Source) -> Finding:
    rows, evidence = _unpaced(source)
    last = next((row for row in rows if row.clients == COUNTS[-1]), None)
    if last is None:
        return Finding(NOT_TESTABLE, f"no row with {COUNTS[-1]} clients that sent as fast as echoes arrived", evidence)
    low, middle, high = last.interval(ECHOES)
    because = f"{middle:.0f}/s [{low:.0f}, {high:.0f}] remain at {COUNTS[-1]} clients"
    if high < FLOOR:
        return Finding(CONTRADICTED, because, evidence)
    return Finding(SUPPORTED if low > FLOOR else NOT_TESTABLE, because, evidence)


def _unpaced(source: Source) -> tuple[list[Row], list[str]]:
    rows = by_clients(source.rows, ECHOES)
    return source.cells("rdma"), [line_of(row, f"{row.values[ECHOES]:.0f} echoes per second") for row in rows]


def falls_because_of_switching(source: Source) -> Finding:
    name, rate = "server_switches_per_s", "messages_per_second"
    evidence = [
        line_of(row, f"{row.values[name]:.0f} context switches per second in the server, {row.values[rate]:.0f} echoes")
        for row in by_clients([row for row in source.rows if row.usable and row.rate == 0], name)
    ]
    own = [row for row in source.threads() if row.get(name) and row.get(rate)]
    if len(own) < CLIENTS_MIN or own[-1].clients < SWITCHING_CLIENTS:
        because = (
            "needs rows of the engine with a thread for each client (--engine epoll,threads) up to "
            f"{SWITCHING_CLIENTS} clients"
        )
        return Finding(NOT_TESTABLE, because, evidence)
    if obstacle := other_work(own):
        return Finding(NOT_TESTABLE, obstacle, evidence)
    best, last = max(own, key=lambda row: row.values[rate]), own[-1]
    each = [row.values[name] / row.values[rate] for row in (best, last)]
    because = (
        f"with a thread for each client {best.values[rate]:.0f} echoes per second at {best.clients} clients and "
        f"{last.values[rate]:.0f} at "
        f"{last.clients}, with {each[0]:.2g} and {each[1]:.2g} context switches per echo"
    )
    falls = best is not last and best.interval(rate)[0] > last.interval(rate)[2]
    return Finding(SUPPORTED if falls and each[1] > CONSTANT * each[0] else CONTRADICTED, because, evidence)


def shared_context_saves(source: Source) -> Finding:
    name = "server_kib_per_connection"
    found = [pair for pair in source.both_engines() if pair.one.get(name) and pair.other.get(name)]
    pairs = [(pair.one, pair.other) for pair in found if pair.counts]
    evidence = [
        f"{shared.clients} clients: {shared.values[name]:.4g} KiB each with one context, {own.values[name]:.4g} "
        "with own ones and threads"
        for shared, own in pairs
    ]
    evidence += [f"{pair.one.clients} clients: left out ({pair.obstacle})" for pair in found if pair.obstacle]
    if not pairs or pairs[-1][0].clients < CONTEXT_CLIENTS:
        because = (
            "needs rows of the engine with a context of its own for each client, beside the other, with equal "
            "numbers of clients "
            f"of {CONTEXT_CLIENTS} and more"
        )
        return Finding(NOT_TESTABLE, because, evidence)
    shared, own = pairs[-1]
    saved = 100 * (1 - shared.values[name] / own.values[name])
    because = (
        f"at {shared.clients} clients one device context for all takes {saved:.0f} % less memory than one for "
        "each, threads included"
    )
    return Finding(SUPPORTED if saved >= SAVED_PERCENT else CONTRADICTED, because, evidence)


JUDGES: dict[str, Judge] = {
    "S3.1": _not_of_the_published(all_succeed),
    "S3.2": _not_of_the_published(connect_time_constant),
    "S3.3a": _not_of_the_published(latency_flat),
    "S3.3b": _not_of_the_published(latency_below_maximum),
    "S3.4": _not_of_the_published(memory_linear),
    "S3.5": _not_of_the_published(threads_for_clients),
    "S3.6a": _not_of_the_published(throughput_peaks_at_1000),
    "S3.6b": _not_of_the_published(throughput_stays_above),
    "S3.7": _not_of_the_published(falls_because_of_switching),
    "S3.8": _not_of_the_published(shared_context_saves),
    "S3.9a": _not_of_the_published(limits.threads),
    "S3.9b": _not_of_the_published(limits.memory),
    "S3.9c": _not_of_the_published(limits.event_driven),
    "S3.10": _not_of_the_published(resources.psn_exchange_over_tls),
    "S3.11": _not_of_the_published(resources.connecting_scales),
    "S3.12": _not_of_the_published(resources.thread_creation),
    "S3.13": _not_of_the_published(limits.queue_pairs),
    "S3.14": _not_of_the_published(resources.cpu_manageable),
}
