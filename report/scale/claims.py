"""Judges the published claims about many clients from the rows of one table.

JUDGES has one function for each claim, by the claim's id in bench/published/claims.csv. Rows over
RDMA give the verdict, because the claims are about RDMA; rows over TCP are further evidence. A
claim that needs rows which the table does not have is not testable, and the finding says which
rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from report.claims import CONTRADICTED, NOT_TESTABLE, SUPPORTED, Finding, Statement
from report.scale.rows import Row, Source

COUNTS = (10, 100, 1000, 5000, 10000, 20000)
# "constant" and "no significant degradation": the greatest value is at most this many times the
# least.
CONSTANT = 1.5
# A claim about scale needs this ratio of the most to the fewest clients, and this many numbers of
# clients.
SPAN = 100
CLIENTS_MIN = 3
LATENCY_MAX_MS = 6.0
KIB_PER_CLIENT, KIB_TOLERANCE = 8.5 * 1000 / 1024, 0.25
# The claim's "extreme scale" is 20000 clients; a server with a thread for each client is tested
# with this many.
SWITCHING_CLIENTS = 300
CONTEXT_CLIENTS, SAVED_PERCENT = 100, 85.0
PEAK, PEAK_AT, FLOOR = 9656, 1000, 2000
THREADS_MAX = 30_000  # the clients that a server with threads is claimed to have

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
        _line(row, f"{row.values['success_percent']:.4g} % good", _at_once(row))
        for row in _by_clients(source.rows, "success_percent")
    ]
    failed = [row for row in rows if row.values["success_percent"] < 100]
    if failed:
        return Finding(CONTRADICTED, f"clients failed at {_counts(failed)} clients", evidence)
    missing = [str(count) for count in COUNTS if count not in {row.clients for row in rows}]
    if missing:
        return Finding(NOT_TESTABLE, f"no row with {', '.join(missing)} clients", evidence)
    unseen = [row for row in rows if row.get("peak_clients") != row.clients]
    if unseen:
        return Finding(
            NOT_TESTABLE,
            f"the server does not report that all were connected at once at {_counts(unseen)} clients",
            evidence,
        )
    return Finding(SUPPORTED, "every client verified its echoes, and all were connected at once", evidence)


def connect_time_constant(source: Source) -> Finding:
    rows = source.cells("rdma") or source.cells("rdma", paced=True)
    evidence = [
        _line(row, f"{row.values['avg_connect_ms']:.4g} ms on average")
        for row in _by_clients(source.rows, "avg_connect_ms")
    ]
    note = "; the 15 ms were the mean of a random sleep of 10 to 20 ms"
    return _constant(rows, "avg_connect_ms", "ms", "connecting takes", note, evidence)


def latency_flat(source: Source) -> Finding:
    rows = source.cells("rdma", paced=True)
    evidence = [
        _line(row, f"{row.values['avg_latency_ms']:.3g} ms on average, {row.values['latency_max_ms']:.3g} ms at most")
        for row in _by_clients(source.rows, "avg_latency_ms")
        if row.get("latency_max_ms") is not None
    ]
    if not rows:
        because = (
            "needs rows at an offered rate (--rate): if every client sends as fast as its echoes arrive, latency "
            "is the number of clients divided by the rate"
        )
        return Finding(NOT_TESTABLE, because, evidence)
    finding = _constant(
        rows, "avg_latency_ms", "ms", f"at {rows[0].rate:.0f} messages per second an echo takes", "", evidence
    )
    late = [row for row in rows if (row.get("latency_max_ms") or 0) > LATENCY_MAX_MS]
    if late and finding.verdict != NOT_TESTABLE:
        return Finding(
            CONTRADICTED,
            f"{finding.because}; above {LATENCY_MAX_MS:.0f} ms at most at {_counts(late)} clients",
            evidence,
        )
    return finding


def memory_linear(source: Source) -> Finding:
    name = "server_kib_per_connection"
    rows = [row for row in source.cells("rdma") or source.cells("rdma", paced=True) if row.get(name)]
    evidence = [_line(row, f"{row.values[name]:.4g} KiB per connection") for row in _by_clients(source.rows, name)]
    rows = [row for row in rows if row.clients >= 1000]
    if len(rows) < 2 or rows[-1].clients < 10 * rows[0].clients:
        return Finding(
            NOT_TESTABLE, "needs rows from 1000 to 10000 clients and more: with fewer, fixed costs dominate", evidence
        )
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
    rows = _by_clients([row for row in source.rows if row.usable], "peak_threads")
    evidence = [_line(row, f"{row.values['peak_threads']:.0f} threads") for row in rows]
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
    name = "messages_per_second"
    rows = source.cells("rdma")
    evidence = [_line(row, f"{row.values[name]:.0f} echoes per second") for row in _by_clients(source.rows, name)]
    if missing := [str(count) for count in (PEAK_AT, 20000) if count not in {row.clients for row in rows}]:
        return Finding(
            NOT_TESTABLE, f"no row with {' and '.join(missing)} clients that sent as fast as echoes arrived", evidence
        )
    if len(rows) < CLIENTS_MIN:
        return Finding(NOT_TESTABLE, "too few numbers of clients for a claim about a peak", evidence)
    top = max(rows, key=lambda row: row.values[name])
    at_1000 = next(row for row in rows if row.clients == PEAK_AT)
    last = next(row for row in rows if row.clients == 20000)
    because = (
        f"with equal work the peak is {top.values[name]:.0f}/s at {top.clients} clients, and "
        f"{last.values[name]:.0f}/s remain at 20000"
    )
    if last.interval(name)[2] < FLOOR:
        return Finding(CONTRADICTED, f"{because}: not above {FLOOR}", evidence)
    if top is not at_1000:
        if top.interval(name)[0] > at_1000.interval(name)[2]:
            return Finding(CONTRADICTED, f"{because}; it is not at {PEAK_AT} clients", evidence)
        return Finding(NOT_TESTABLE, f"{because}; the intervals of that and of {PEAK_AT} clients overlap", evidence)
    low, _, high = at_1000.interval(name)
    if not low <= PEAK <= high:
        return Finding(CONTRADICTED, f"{because}; not {PEAK}", evidence)
    return Finding(SUPPORTED, because, evidence)


def falls_because_of_switching(source: Source) -> Finding:
    name, rate = "server_switches_per_s", "messages_per_second"
    evidence = [
        _line(row, f"{row.values[name]:.0f} context switches per second in the server, {row.values[rate]:.0f} echoes")
        for row in _by_clients([row for row in source.rows if row.usable and row.rate == 0], name)
    ]
    own = [row for row in source.threads() if row.get(name) and row.get(rate)]
    if len(own) < CLIENTS_MIN or own[-1].clients < SWITCHING_CLIENTS:
        because = (
            "needs rows of the engine with a thread for each client (--engine epoll,threads) up to "
            f"{SWITCHING_CLIENTS} clients"
        )
        return Finding(NOT_TESTABLE, because, evidence)
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
    apart = {row.clients: row for row in source.threads() if row.get(name)}
    pairs = [(row, apart[row.clients]) for row in source.cells("rdma") if row.clients in apart and row.get(name)]
    evidence = [
        f"{shared.clients} clients: {shared.values[name]:.4g} KiB each with one context, {own.values[name]:.4g} "
        "with own ones and threads"
        for shared, own in pairs
    ]
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


def limits(source: Source) -> Finding:
    """Use the capacity model of `bench scale --capacity` in the environment, and the rows."""
    modelled = {
        key.removeprefix("capacity "): text for key, text in source.environment.items() if key.startswith("capacity ")
    }
    evidence = [f"{kind}: {text}" for kind, text in modelled.items()]
    if parts := source.environment.get("capacity_parts"):
        evidence.append(f"parts: {parts}")
    good = [row for row in source.rows if row.usable and row.get("success_percent") == 100]
    ran = [row for row in good if row.get("peak_clients") == row.clients]
    if ran:
        most = max(ran, key=lambda row: row.clients)
        evidence.append(_line(most, "all at once"))
    rdma = re.search(r"at most (\d+), bound by ([a-z ]+)", modelled.get("rdma", ""))
    memory = re.search(r"memory: (\d+)", modelled.get("rdma", ""))
    if rdma is None or memory is None:
        return Finding(
            NOT_TESTABLE,
            "needs the model from the measured cost of a client of each kind (bench scale --capacity)",
            evidence,
        )
    because = (
        f"by measured costs this machine's memory allows {int(memory[1])} clients over RDMA, and the server at "
        f"most {int(rdma[1])}, "
        f"bound by {rdma[2]}; 8.5 KB per client and 750000 by memory need {8500 * 750_000 / 2**30:.3g} GiB, which "
        "the claim does not state"
    )
    near = abs(int(memory[1]) - 750_000) <= KIB_TOLERANCE * 750_000
    many = int(rdma[1]) >= 100_000
    threads = re.search(r"at most (\d+)", modelled.get("rdma, a thread for each", ""))
    parts = [
        Statement("About 30000 clients by threads", _by_threads(int(threads[1]) if threads else None)),
        Statement("750000 by memory", _measured(near, f"this machine's memory allows {memory[1]}")),
        Statement("100000 and more event-driven", _measured(many, f"at most {rdma[1]}, bound by {rdma[2]}")),
    ]
    return Finding(SUPPORTED if near and many else CONTRADICTED, because, evidence, parts)


def _by_threads(most: int | None) -> Finding:
    if most is None:
        return Finding(NOT_TESTABLE, "the model has no server with a thread for each client")
    near = abs(most - THREADS_MAX) <= KIB_TOLERANCE * THREADS_MAX
    return _measured(near, f"a server with a thread for each client has at most {most}")


def _measured(holds: bool, because: str) -> Finding:
    return Finding(SUPPORTED if holds else CONTRADICTED, because)


JUDGES: dict[str, Judge] = {
    "S3.1": _not_of_the_published(all_succeed),
    "S3.2": _not_of_the_published(connect_time_constant),
    "S3.3": _not_of_the_published(latency_flat),
    "S3.4": _not_of_the_published(memory_linear),
    "S3.5": _not_of_the_published(threads_for_clients),
    "S3.6": _not_of_the_published(throughput_peaks_at_1000),
    "S3.7": _not_of_the_published(falls_because_of_switching),
    "S3.8": _not_of_the_published(shared_context_saves),
    "S3.9": _not_of_the_published(limits),
}


def _constant(rows: list[Row], name: str, unit: str, what: str, note: str, evidence: list[str]) -> Finding:
    rows = [row for row in rows if row.get(name)]
    values = [row.values[name] for row in rows]
    if not rows:
        return Finding(NOT_TESTABLE, "no valid row over RDMA", evidence)
    span = f"{rows[0].clients} to {rows[-1].clients} clients"
    because = f"{what} {min(values):.3g} to {max(values):.3g} {unit} from {span}{note}"
    # One counterexample contradicts a claim; support needs a range of clients.
    if max(values) > CONSTANT * min(values):
        return Finding(CONTRADICTED, because, evidence)
    if len(rows) < CLIENTS_MIN or rows[-1].clients < SPAN * rows[0].clients:
        return Finding(
            NOT_TESTABLE, f"{because}: too few different numbers of clients for a claim about scale", evidence
        )
    return Finding(SUPPORTED, because, evidence)


def _by_clients(rows: list[Row] | tuple[Row, ...], name: str) -> list[Row]:
    return sorted(
        (row for row in rows if row.get(name) is not None), key=lambda row: (row.transport, row.rate, row.clients)
    )


def _counts(rows: list[Row]) -> str:
    return ", ".join(str(count) for count in sorted({row.clients for row in rows}))


def _at_once(row: Row) -> str:
    peak = row.get("peak_clients")
    return "" if peak is None else f", {peak:.0f} at once"


def _line(row: Row, text: str, more: str = "") -> str:
    pace = f", {row.rate:.0f}/s offered" if row.rate else ""
    mark = "" if row.usable else f" ({row.validity}: {row.reason})"
    sharing = f" on {row.shared} shared queue pairs" if row.shared else ""
    if row.is_rival:
        return f"{row.system} with {row.clients} clients over {row.transport}: {text}{mark}"
    kind = (", a thread for each" if row.engine == "threads" else "") + (f", {row.apart}" if row.apart else "")
    return f"{row.clients} clients over {row.transport or '?'}{sharing}{kind}{pace}: {text}{more}{mark}"
