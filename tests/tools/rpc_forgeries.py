# SPDX-License-Identifier: Apache-2.0
"""Changes to a row of `verbena bench rpc`, as a forger would make them who knows the format."""

from statistics import median

from forging import Change, Row, histogram, of_first, of_repetitions, scaled, together, with_values

SIZES = {"128B": 128, "4K": 4096}
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")
CELL = {
    *("request_size", "concurrency", "system", "transport", "mode", "ablation", "without", "recv_mode", "memory"),
    *("connections", "seconds"),
}
RATES = ("qps", "gigabits_per_second", "qps_low", "qps_high")


def summarized(row: Row) -> None:
    """Compute the rates of a row from its repetitions, as the program does."""
    for one in row["repetitions"]:
        one["qps"] = one["requests"] / one["seconds"]
    rates = sorted(one["qps"] for one in row["repetitions"])
    row.update(qps=median(rates), qps_low=rates[0], qps_high=rates[-1], spread=(rates[-1] - rates[0]) / median(rates))
    row["gigabits_per_second"] = row["qps"] * SIZES[row["request_size"]] * 8 / 1e9
    row["requests"] = sum(one["requests"] for one in row["repetitions"])
    row["mean_us"] = sum(one["latency_sum_us"] for one in row["repetitions"]) / row["requests"]
    for name, keys in (
        ("cpu_us_per_request", ("client_cpu_s", "server_cpu_s")),
        ("server_cpu_us_per_request", ("server_cpu_s",)),
    ):
        row[name] = median(sum(one[key] for key in keys) * 1e6 / one["requests"] for one in row["repetitions"])


def follows(change: Change) -> Change:
    """Change each repetition, and the figures of the row that follow from it, but no latencies."""
    return together(of_repetitions(change), summarized)


def times(count: int) -> Change:
    """Multiply the requests of a repetition, with all counts that must be at least as many."""

    def change(one: Row) -> None:
        for name in ("requests", "served", "frames", "messages", "payload_bytes", "rdma_frames", "rdma_frames_inline"):
            one[name] *= count

    return change


def times_with_histogram(count: int) -> Change:
    def change(one: Row) -> None:
        times(count)(one)
        one["latency_sum_us"] *= count
        one["latency_ns"]["count"] *= count
        for bucket in one["latency_ns"]["buckets"]:
            bucket[1] *= count

    return change


def at_once(factor: float) -> Change:
    """Give all requests of a row the same latency: their mean times this."""

    def change(row: Row) -> None:
        nanoseconds = int(row["mean_us"] * 1000 * factor)
        for one in row["repetitions"]:
            count = one["requests"]
            one.update(dict.fromkeys(PERCENTILES, nanoseconds / 1e3), latency_sum_us=count * nanoseconds / 1e3)
            one["latency_ns"] = {"count": count, "min": nanoseconds, "max": nanoseconds} | {
                "buckets": [[nanoseconds, count]]
            }
        row.update(dict.fromkeys((*PERCENTILES, "p99_us_low", "p99_us_high"), nanoseconds / 1e3))
        summarized(row)

    return change


def as_size(text: str) -> Change:
    def change(row: Row) -> None:
        row.update(request_size=text, gigabits_per_second=row["qps"] * SIZES[text] * 8 / 1e9)

    return change


FORGERIES: dict[str, tuple[str, Change]] = {
    "a higher rate": ("tcp", scaled(1.5, "qps")),
    "a higher rate and throughput": ("tcp", scaled(1.5, "qps", "gigabits_per_second")),
    "a higher rate with its interval": ("rdma", scaled(1.5, *RATES)),
    "a lower rate of the others": ("tcp", scaled(0.5, *RATES)),
    "three times the rate at a third of the latency": (
        "rdma", together(scaled(3, *RATES), scaled(1 / 3, *PERCENTILES, "mean_us", "p99_us_low", "p99_us_high")),
    ),
    "a higher throughput": ("tcp", scaled(1.1, "gigabits_per_second")),
    "three times the requests, in the repetitions too": ("tcp", follows(times(3))),
    "three times the requests, with their histograms": ("tcp", follows(times_with_histogram(3))),
    "a third of the time, in the repetitions too": ("rdma", follows(scaled(1 / 3, "seconds"))),
    "a third of the time, and the settings say so": (
        "rdma", together(follows(scaled(1 / 3, "seconds")), scaled(1 / 3, "seconds")),
    ),
    "next to no latency": ("tcp", at_once(0.01)),
    "three times the latency": ("rdma", at_once(3)),
    "one request more": ("tcp", lambda row: row.update(requests=row["requests"] + 1)),
    "one request more in a repetition": (
        "tcp", together(of_first(lambda one: one.update(requests=one["requests"] + 1)), summarized),
    ),
    "served less than was answered": ("tcp", of_first(with_values(served=1))),
    "failed requests": ("tcp", of_first(with_values(failed=3))),
    "failed requests hidden by a negative count": ("tcp", of_first(with_values(failed=-1))),
    "a repetition that failed": ("rdma", of_first(with_values(failure="the server's process died"))),
    "no failure known": ("rdma", of_first(lambda one: one.pop("failure"))),
    "no requests": ("tcp", of_repetitions(with_values(requests=0))),
    "percentiles out of order": ("tcp", lambda row: row.update(p90_us=row["p50_us"] / 2)),
    "the maximum below P99": ("rdma", lambda row: row.update(max_us=row["p99_us"] / 2)),
    "a P99.9 that was not measured": ("tcp", scaled(0.9, "p999_us")),
    "a P99.99 that was not measured": ("tcp", scaled(0.9, "p9999_us")),
    "an early P99 in the repetitions too": (
        "tcp", together(scaled(0.9, "p99_us", "p99_us_low", "p99_us_high"), of_repetitions(scaled(0.9, "p99_us"))),
    ),
    "a wide interval of P99": ("rdma", scaled(0.5, "p99_us_low")),
    "no interval": ("rdma", with_values(qps_low=None, qps_high=None)),
    "no spread": ("tcp", with_values(spread=0)),
    "a lower mean": ("tcp", scaled(0.9, "mean_us")),
    "a lower mean in the repetitions too": ("tcp", follows(scaled(0.9, "latency_sum_us"))),
    "a histogram backwards": ("tcp", histogram(lambda of: of["buckets"].reverse())),
    "a histogram with another count": ("tcp", histogram(lambda of: of.update(count=of["count"] + 1))),
    "a histogram without its tail": (
        "tcp", histogram(lambda of: of.update(count=of["count"] - of["buckets"].pop()[1], max=of["buckets"][-1][0])),
    ),
    "a histogram of fewer requests": ("tcp", histogram(lambda of: of["buckets"][0].__setitem__(1, 10**9))),
    "a histogram that is a word": ("tcp", of_first(with_values(latency_ns="fast"))),
    "no histograms": ("tcp", of_repetitions(lambda one: one.pop("latency_ns"))),
    "one histogram fewer": ("rdma", of_first(lambda one: one.pop("latency_ns"))),
    "a negative rate": ("tcp", with_values(qps=-1.0)),
    "a word for a rate": ("tcp", with_values(qps="fast")),
    "no number": ("tcp", with_values(p99_us="NaN")),
    "truth for a rate": ("tcp", with_values(qps=True)),
    "half a connection": ("tcp", with_values(connections=0.5)),
    "less processor time": ("tcp", scaled(0.5, "cpu_us_per_request")),
    "less processor time of the server": ("tcp", scaled(0.5, "server_cpu_us_per_request")),
    "more processor time than the machine has": ("tcp", follows(scaled(1000, "client_cpu_s"))),
    "larger batches": ("tcp", scaled(2, "requests_per_message")),
    "more messages than frames": ("tcp", of_repetitions(lambda one: one.update(messages=one["frames"] + 1))),
    "everything inline": ("rdma", with_values(inline_share=1.5)),
    "registrations hidden": ("rdma", with_values(registrations=None)),
    "less pinned memory": ("rdma", scaled(0.1, "pinned_kib_per_connection")),
    "another size": ("tcp", as_size("4K")),
    "a size in other words": ("tcp", with_values(request_size="0128B")),
    "fewer in flight": ("tcp", with_values(concurrency=4)),
    "more in flight": ("tcp", with_values(concurrency=17)),
    "more connections": ("tcp", with_values(connections=16)),
    "TCP sold as RDMA": ("tcp", with_values(transport="rdma", recv_mode="srq", memory="user")),
    "RDMA sold as TCP": ("rdma", with_values(transport="tcp", recv_mode="", memory="")),
    "sink sold as echo": ("tcp", with_values(mode="echo")),
    "ours sold as gRPC": ("tcp", with_values(system="grpc")),
    "buffers of each connection": ("rdma", with_values(recv_mode="per_connection")),
    "registered memory": ("rdma", with_values(memory="registered")),
    "an ablation": ("rdma", with_values(ablation="inline", without="inline")),
    "an unknown system": ("tcp", with_values(system="brpc")),
    "an unknown transport": ("tcp", with_values(transport="udp")),
    "an unknown mode": ("tcp", with_values(mode="both")),
    "an unknown ablation": ("rdma", with_values(ablation="luck")),
    "no system": ("tcp", with_values(system=None)),
    "no transport": ("tcp", with_values(transport=None)),
    "another cell, and its repetitions say so": (
        "tcp", together(as_size("4K"), of_repetitions(with_values(cell="4K x 16 over tcp"))),
    ),
    "RDMA sold as TCP, and its repetitions say so": (
        "rdma",
        together(
            with_values(transport="tcp", recv_mode="", memory=""),
            of_repetitions(with_values(cell="128B x 16 over tcp")),
        ),
    ),
    "without repetitions": ("tcp", with_values(repetitions=[])),
    "repetitions that are null": ("tcp", with_values(repetitions=None)),
    "one repetition left": ("tcp", lambda row: row["repetitions"].pop()),
    "one repetition twice": ("tcp", lambda row: row["repetitions"].append(row["repetitions"][0])),
    "repetitions that are words": ("tcp", with_values(repetitions=["fast", "faster"])),
    "repetitions that are rates": ("tcp", with_values(repetitions=[1e6, 1e6])),
    "repetitions of another experiment": (
        "tcp", with_values(repetitions=[{"iters": 1, "posted": 1, "mops": 1.0, "failure": ""}]),
    ),
    "repetitions without counts": ("tcp", of_repetitions(lambda one: one.pop("requests"))),
    "counts that are words": ("tcp", of_repetitions(with_values(served="many"))),
    "counts with a fraction": ("tcp", of_repetitions(with_values(served=1e9 + 0.5))),
    "figures hidden as n/a": ("tcp", with_values(**dict.fromkeys((*RATES, *PERCENTILES)))),
    "all of it hidden as n/a": (
        "tcp", lambda row: row.update(dict.fromkeys(set(row) - CELL), repetitions=[], reason="too slow"),
    ),
    "figures that are the text n/a": ("tcp", with_values(**dict.fromkeys((*RATES, *PERCENTILES), "n/a"))),
}  # fmt: skip
