# SPDX-License-Identifier: Apache-2.0
"""Calls: tables, verdicts and the page. All figures are SYNTHETIC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from report.rpc import claims, rows
from report.rpc.experiment import RPC
from report.tests.running import OWN_SCRIPTS, read, run
from report.tests.synthetic import table_text
from report.tests.synthetic_calls import AROUND, ENVIRONMENT, SIZES, row

REGISTRATION = {f"registration {size}": "50 us to register and deregister, 10 us to copy" for size in ("4K", "256K")}
PUBLISHED_COLUMNS = "request_size,concurrency,gigabits_per_second,p90_us,p99_us,qps"
WIDE = (0.5, 0.7, 1.0, 1.5, 2.0)


def matrix(**changes: Any) -> list[dict[str, object]]:
    """Rows as claimed: only the rate of small calls grows with the requests in flight."""
    small = [
        row(size, count, 40_000 * count**0.68, **changes) for size in ("128B", "4K") for count in (1, 4, 16, 64, 256)
    ]
    return small + [
        row(size, count, 20e9 / SIZES[size], **changes) for size in ("256K", "1M") for count in (1, 4, 16, 64, 256)
    ]


def ablated(name: str, size: str, concurrency: int, gain: float, **changes: Any) -> list[dict[str, object]]:
    """Return a pair of rows. Their P99 is equal."""
    rates = changes.pop("rates", AROUND)
    return [
        row(size, concurrency, 1000 * gain, ablation=name, p99=(1.5 * gain,), rates=rates, **changes),
        row(size, concurrency, 1000, ablation=name, without=name, rates=rates, **changes),
    ]


def source(tmp_path: Path, table: list[dict[str, object]], **environment: str) -> rows.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(table_text(table, environment or ENVIRONMENT), encoding="utf-8")
    return read(path)


def verdicts(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in RPC.judge_claims(of)}


def test_published_rows_get_the_verdicts_of_verbena_check() -> None:
    faults = {
        (each.words["request_size"], each.concurrency): each.validity
        for each in RPC.published().rows
        if not each.usable
    }
    assert faults == {
        ("128B", 64): "invalid",
        ("128B", 256): "invalid",
        ("4K", 256): "invalid",
        ("256K", 256): "invalid",
        ("8M", 1): "suspect",
        ("8M", 256): "suspect",
    }


def test_published_rows_judge_their_own_claims() -> None:
    found = verdicts(RPC.published())
    assert found.pop("S4.2") == "contradicted", "256K at 4 has 55 % of what 16 have"
    assert set(found.values()) == {"not testable"} and len(found) == 7
    assert "1.44 million" in claims.rate_of_small_calls(RPC.published()).because


def test_a_table_as_it_was_claimed_supports_every_claim(tmp_path: Path) -> None:
    table = matrix()
    for name, size in (("inline", "128B"), ("coalescing", "128B"), ("send-queue", "256K"), ("connection-pool", "128B")):
        table += ablated(name, size, 64, 1.5)
    table.append(row("128B", 1, 40_000, recv_mode="per_connection"))
    found = verdicts(source(tmp_path, table, kind="software", **REGISTRATION))
    assert set(found.values()) == {"supported"} and set(found) == set(claims.JUDGES)


@pytest.mark.parametrize(
    ("claim", "name", "size"),
    [
        ("S4.4", "coalescing", "128B"),
        ("S4.5", "inline", "128B"),
        ("S4.6", "send-queue", "1M"),
        ("S4.8", "connection-pool", "4K"),
    ],
)
def test_a_behaviour_that_does_not_help_contradicts(tmp_path: Path, claim: str, name: str, size: str) -> None:
    assert verdicts(source(tmp_path, ablated(name, size, 64, 1.0)))[claim] == "contradicted"
    wide = ablated(name, size, 64, 1.1, rates=WIDE)
    assert verdicts(source(tmp_path, wide))[claim] in ("not testable", "contradicted")


@pytest.mark.parametrize(("highest", "verdict"), [(1.4, "contradicted"), (2.3, "not testable")])
def test_coalescing_that_delays_contradicts_if_intervals_do_not_overlap(
    tmp_path: Path, highest: float, verdict: str
) -> None:
    off = {"ablation": "coalescing", "without": "coalescing", "p99": (1.2, 1.25, 1.25, 1.3, highest)}
    late = row("128B", 64, 2000, ablation="coalescing", p99=(3.8, 3.9, 4.0, 4.1, 4.2))
    assert verdicts(source(tmp_path, [late, row("128B", 64, 1000, **off)]))["S4.4"] == verdict


def test_coalescing_that_delays_a_single_request_contradicts_too(tmp_path: Path) -> None:
    late = row("128B", 1, 2000, ablation="coalescing", p99=(4.0,))
    alone = [late, row("128B", 1, 1000, ablation="coalescing", without="coalescing", p99=(1.3,))]
    found = verdicts(source(tmp_path, [*ablated("coalescing", "128B", 64, 2.0), *alone]))
    assert found["S4.4"] == "contradicted"


def test_coalescing_is_judged_over_rdma_only(tmp_path: Path) -> None:
    tcp = ablated("coalescing", "128B", 64, 0.5, transport="tcp")
    assert verdicts(source(tmp_path, tcp))["S4.4"] == "not testable"
    assert verdicts(source(tmp_path, tcp + ablated("coalescing", "128B", 64, 2.0)))["S4.4"] == "supported"


def test_a_slow_software_nic_does_not_refute_a_rate_of_hardware(tmp_path: Path) -> None:
    table = [row("128B", 256, 900_000)]
    assert verdicts(source(tmp_path, table))["S4.1"] == "not testable"
    assert verdicts(source(tmp_path, table, device="mlx5_0", kind="hardware"))["S4.1"] == "contradicted"


def test_an_interval_that_includes_the_claimed_rate_supports_nothing(tmp_path: Path) -> None:
    table = [row("128B", 256, 900_000, rates=WIDE)]
    assert "too wide" in claims.rate_of_small_calls(source(tmp_path, table)).because
    wide = [row("256K", count, qps, rates=WIDE) for count, qps in ((4, 5_000), (16, 10_000))]
    assert verdicts(source(tmp_path, wide))["S4.2"] == "not testable"


def test_rows_that_are_not_valid_support_no_claim(tmp_path: Path) -> None:
    idle = source(tmp_path, matrix(busy=0.5))
    assert {each.validity for each in idle.rows} == {"suspect"}
    assert set(verdicts(idle).values()) == {"not testable"}


def test_a_verdict_that_stands_in_the_file_is_not_believed(tmp_path: Path) -> None:
    forged = row("128B", 64, 10_000) | {"qps": 2e6, "gigabits_per_second": 2e6 * 1024 / 1e9, "validity": "valid"}
    (read,) = source(tmp_path, [forged]).rows
    assert read.validity == "invalid" and "the repetitions give" in read.reason


def test_the_page_has_every_picture_claim_and_comparison(tmp_path: Path) -> None:
    table = matrix() + matrix(transport="tcp") + [row("4K", 4, 1000, mode="echo")] + ablated("inline", "128B", 1, 1.2)
    table.append(row("128B", 64, 10_000, transport="tcp", system="grpc"))
    table.append(row("128B", 4, 10_000, transport="../<script>"))
    (tmp_path / "rpc.csv").write_text(table_text(table, ENVIRONMENT), encoding="utf-8")
    done = run("rpc.csv", "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {
        f"{q}_vs_{x}_{mode}"
        for q in ("qps", "throughput", "latency")
        for x in ("size", "concurrency")
        for mode in ("sink", "echo")
    }
    drawn = {path.stem for path in (tmp_path / "plots").iterdir()}
    assert {stem for stem in drawn if not stem.startswith("latency_percentiles_")} == names
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f'<span class="id">{claim}</span>' in page for claim in claims.JUDGES)
    assert (
        "Gain of each behaviour" in page and "Ours against grpc, calls" in page and page.count("<script") == OWN_SCRIPTS
    )
    document = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))
    assert set(document["claims"]) == {"rpc", "rpc_rdma"} and len(document["sources"][0]["rows"]) == len(table)


def test_tcp_and_rdma_are_in_one_chart_and_rivals_are_faint(tmp_path: Path) -> None:
    table = [row(size, 64, 10_000, transport=transport) for size in ("128B", "4K") for transport in ("rdma", "tcp")]
    table.append(row("128B", 64, 12_000, transport="tcp", system="grpc"))
    chart = next(iter(RPC.charts([source(tmp_path, table)], RPC.published())))
    seen = {line.label: line.behind for line in chart.lines}
    assert seen["rdma, 64 in flight"] is seen["tcp, 64 in flight"] is False
    assert seen["grpc, tcp, 64 in flight"] is seen["rdma, 64 in flight, published"] is True


def test_an_unknown_size_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(f"{PUBLISHED_COLUMNS}\nlarge,1,1,1,1,1\n", encoding="utf-8")
    done = run("bad.csv", "-o", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "'large' is no size" in done.stderr
