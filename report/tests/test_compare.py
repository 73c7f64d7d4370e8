# SPDX-License-Identifier: Apache-2.0
"""Rows that must not be compared, or on which no claim may rest. All figures are SYNTHETIC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from report import tables
from report.compare import TWICE, paired, unique_by
from report.experiment import Experiment
from report.kv.experiment import KV
from report.kv.goals import auto_ratios
from report.rcud.experiment import RCUD
from report.rpc.experiment import RPC
from report.scale.experiment import SCALE
from report.tests import synthetic, synthetic_calls, synthetic_kv, synthetic_scale
from report.tests.running import read
from report.tests.synthetic import table_text

SOFTWARE = {"device": "vb_synthetic", "kind": "software", "memory_bytes": "8589934592"}
FASTER = {64: 1.1, 4096: 1.5, 65536: 2.0, 1 << 20: 3.0}
SLOWER = {64: 0.5, 4096: 0.8, 65536: 2.0, 1 << 20: 3.0}
Table = list[dict[str, object]]


def source(tmp_path: Path, table: Table, **environment: str) -> tables.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(table_text(table, SOFTWARE | environment), encoding="utf-8")
    return read(path)


def verdicts(experiment: Experiment, of: tables.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in experiment.judge_claims(of)}


def because(experiment: Experiment, of: tables.Source, claim: str) -> str:
    return next(each.finding.because for each in experiment.judge_claims(of) if each.claim.id == claim)


def answers(experiment: Experiment, of: tables.Source, title: str) -> list[tuple[str, str]]:
    found = [each for each in experiment.compare(of) if each.question.title == title]
    return [(each.winner, each.obstacle) for each in found]


def changed(of: tables.Source, wanted: Callable[[tables.Row], bool], **values: float) -> tables.Source:
    """Return a source in which the wanted rows have other values, and are as valid as before."""
    rows = tuple(replace(each, values=each.values | values) if wanted(each) else each for each in of.rows)
    return replace(of, rows=rows)


def invalid(of: tables.Source, wanted: Callable[[tables.Row], bool]) -> tables.Source:
    rows = tuple(replace(each, validity="invalid", reason="forged") if wanted(each) else each for each in of.rows)
    return replace(of, rows=rows)


def both(gain: dict[int, float], **changes: object) -> Table:
    """Return rows of eager, and of rendezvous with `gain` times its rate."""
    made = []
    for op in ("SET", "GET"):
        for size, times in gain.items():
            eager = 200_000 * (64 / size) ** 0.5
            made += [synthetic_kv.row(op, "eager", size, eager, **changes)]
            made += [synthetic_kv.row(op, "rendezvous", size, eager * times, **changes)]
    return made


def eager_again(part: float, **changes: object) -> Table:
    return [
        synthetic_kv.row(op, "eager", size, 200_000 * (64 / size) ** 0.5 * part, **changes)
        for op in ("SET", "GET")
        for size in SLOWER
    ]


def test_a_key_of_two_rows_has_neither_and_its_pair_says_so() -> None:
    one, other, alone = (tables.Row({"name": name}, {}) for name in ("a", "a", "b"))

    def name(row: tables.Row) -> str:
        return row.words["name"]

    assert unique_by([one, other, alone], name) == {"b": alone}
    pairs = paired([one, alone], [alone, one, other], name)
    assert [(name(each.one), each.obstacle) for each in pairs] == [("b", ""), ("a", TWICE)]
    assert [each.counts for each in pairs] == [True, False]


@pytest.mark.parametrize(
    "changes",
    [{"iters": 6000}, {"warmup": 5}, {"rx_depth": 64}, {"tx_depth": 64}, {"eager_max": 64}, {"stalled": 2}],
    ids=lambda changes: next(iter(changes)),
)
def test_eager_rows_of_other_settings_do_not_replace_those_of_the_cell(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    """Slow eager rows at the end of the table once made rendezvous faster in each cell."""
    of = source(tmp_path, both(SLOWER) + eager_again(0.1, **changes))
    winners = [winner for winner, _ in answers(KV, of, "Eager against rendezvous")]
    assert winners == ["eager"] * 4 + ["rendezvous"] * 4
    assert verdicts(KV, of)["S2.1"] == "contradicted"


def test_two_eager_rows_of_one_cell_are_both_left_out(tmp_path: Path) -> None:
    of = source(tmp_path, both(SLOWER) + eager_again(0.1))
    assert answers(KV, of, "Eager against rendezvous") == [("n/a", TWICE)] * 8
    assert [verdicts(KV, of)[claim] for claim in ("S2.1", "S2.2", "S2.3")] == ["not testable"] * 3
    assert TWICE in because(KV, of, "S2.1")


def test_two_rows_of_one_cell_have_no_winner_over_tcp_and_by_one_sided_reads(tmp_path: Path) -> None:
    table = [synthetic_kv.row("GET", "one-sided", 64, 300_000), synthetic_kv.row("GET", "auto", 64, 200_000)]
    table += [synthetic_kv.row("GET", "auto", 64, 100_000, transport="tcp")]
    titles = ("One-sided GETs against those by message", "RDMA against TCP, the store")
    of = source(tmp_path, table)
    assert [answers(KV, of, title) for title in titles] == [[("one-sided", "")], [("RDMA", "")]]
    of = source(tmp_path, [*table, synthetic_kv.row("GET", "auto", 64, 900_000)])
    assert [answers(KV, of, title) for title in titles] == [[("n/a", TWICE)]] * 2


def test_two_rows_of_another_store_are_not_compared_with_ours(tmp_path: Path) -> None:
    table = [synthetic_kv.row("GET", "auto", 64, 200_000)]
    table += [synthetic_kv.rival("redis", "tcp", "GET", 64, rate) for rate in (50_000, 400_000)]
    assert answers(KV, source(tmp_path, table), "Ours against redis, the store") == [("n/a", TWICE)] * 2


def test_a_second_eager_row_does_not_decide_the_goal_of_auto(tmp_path: Path) -> None:
    table = [*both(FASTER), synthetic_kv.row("GET", "auto", 64, 200_000)]
    assert len(auto_ratios(source(tmp_path, table))) == 1
    assert not auto_ratios(source(tmp_path, table + eager_again(0.1)))


def test_pairs_of_the_store_at_another_core_distance_support_no_claim(tmp_path: Path) -> None:
    of = source(tmp_path, both(FASTER))
    assert verdicts(KV, of)["S2.1"] == verdicts(KV, of)["S2.3"] == "supported"
    far = changed(of, lambda row: row.proto == "eager", core_to_core_ns=370.0)
    assert {obstacle[:26] for _, obstacle in answers(KV, far, "Eager against rendezvous")} == {
        "core-to-core round trip mo"
    }
    assert [verdicts(KV, far)[claim] for claim in ("S2.1", "S2.2", "S2.3")] == ["not testable"] * 3
    assert "round trip moved" in because(KV, far, "S2.1")


def test_a_sweep_in_which_the_core_distance_changed_decides_nothing(tmp_path: Path) -> None:
    rates = {16: 50_000, 256: 90_000, 6000: 100_000}
    table = [synthetic_kv.row("SET", "eager", 64, rate, varied="depth", rx_depth=at) for at, rate in rates.items()]
    of = source(tmp_path, table)
    assert verdicts(KV, of)["S2.4"] == "supported"
    far = changed(of, lambda row: row.values["rx_depth"] == 16, core_to_core_ns=370.0)
    assert verdicts(KV, far)["S2.4"] == "not testable"


def ablated(name: str, gain: float) -> Table:
    with_it = synthetic_calls.row("128B", 64, 1000 * gain, ablation=name)
    return [with_it, synthetic_calls.row("128B", 64, 1000, ablation=name, without=name)]


def test_two_rows_without_a_behaviour_give_it_no_gain(tmp_path: Path) -> None:
    table = ablated("inline", 0.5)
    assert verdicts(RPC, source(tmp_path, table))["S4.5"] == "contradicted"
    slower = synthetic_calls.row("128B", 64, 100, ablation="inline", without="inline")
    of = source(tmp_path, [*table, slower])
    assert answers(RPC, of, "Gain of each behaviour") == [("n/a", TWICE)]
    assert verdicts(RPC, of)["S4.5"] == "not testable" and TWICE in because(RPC, of, "S4.5")


def test_a_behaviour_that_was_measured_at_another_core_distance_has_no_gain(tmp_path: Path) -> None:
    of = source(tmp_path, ablated("inline", 1.5))
    assert verdicts(RPC, of)["S4.5"] == "supported"
    near = changed(of, lambda row: not row.words["without"], core_to_core_ns=100.0)
    far = changed(near, lambda row: bool(row.words["without"]), core_to_core_ns=370.0)
    assert verdicts(RPC, far)["S4.5"] == "not testable" and "round trip moved" in because(RPC, far, "S4.5")


def test_few_in_flight_saturate_only_at_the_same_core_distance(tmp_path: Path) -> None:
    of = source(tmp_path, [synthetic_calls.row("256K", count, 10_000) for count in (4, 16)])
    assert verdicts(RPC, of)["S4.2"] == "supported"
    near = changed(of, lambda row: row.concurrency == 4, core_to_core_ns=100.0)
    far = changed(near, lambda row: row.concurrency == 16, core_to_core_ns=370.0)
    assert verdicts(RPC, far)["S4.2"] == "not testable"


def test_two_rows_of_calls_have_no_winner_over_tcp_and_no_rate(tmp_path: Path) -> None:
    table = [synthetic_calls.row("128B", 256, 2e6), synthetic_calls.row("128B", 256, 1e5, transport="tcp")]
    assert answers(RPC, source(tmp_path, table), "RDMA against TCP, calls") == [("RDMA", "")]
    assert verdicts(RPC, source(tmp_path, table))["S4.1"] == "supported"
    of = source(tmp_path, [*table, synthetic_calls.row("128B", 256, 1e6)])
    assert answers(RPC, of, "RDMA against TCP, calls") == [("n/a", TWICE)]
    assert verdicts(RPC, of)["S4.1"] == "not testable"


def test_invalid_rows_do_not_support_the_memory_of_a_connection(tmp_path: Path) -> None:
    of = source(tmp_path, [synthetic_calls.row("128B", 1, 40_000, recv_mode="per_connection")])
    assert verdicts(RPC, of)["S4.7"] == "supported"
    assert verdicts(RPC, invalid(of, lambda _: True))["S4.7"] == "not testable"


def test_costs_of_registration_beside_invalid_rows_support_nothing(tmp_path: Path) -> None:
    costs = {f"registration {size}": "50 us to register and deregister, 10 us to copy" for size in ("4K", "256K")}
    of = source(tmp_path, [synthetic_calls.row("128B", count, 40_000) for count in (1, 4)], **costs)
    assert verdicts(RPC, of)["S4.3"] == "supported"
    one = invalid(of, lambda row: row.concurrency == 4)
    assert verdicts(RPC, one)["S4.3"] == "not testable" and "forged" in because(RPC, one, "S4.3")


WORK = [{name: 40.0} for name in ("think_ms", "messages", "stagger_ms", "seconds", "warmup_s", "handshakes")]


@pytest.mark.parametrize("other", WORK, ids=lambda other: next(iter(other)))
def test_clients_that_do_other_work_over_tcp_are_not_compared(tmp_path: Path, other: dict[str, float]) -> None:
    table = [synthetic_scale.row(100), synthetic_scale.row(100, transport="tcp", per_second=20_000)]
    same = source(tmp_path, table)
    assert answers(SCALE, same, "RDMA against TCP, many clients") == [("RDMA", "")]
    unlike = changed(same, lambda row: row.transport == "tcp", **other)
    assert answers(SCALE, unlike, "RDMA against TCP, many clients") == []


@pytest.mark.parametrize("other", WORK, ids=lambda other: next(iter(other)))
def test_engines_that_did_other_work_are_not_compared(tmp_path: Path, other: dict[str, float]) -> None:
    driven = synthetic_scale.row(2000)
    same = source(tmp_path, [driven, synthetic_scale.row(2000, engine="threads", connecting_ms=30, kib=100)])
    assert [verdicts(SCALE, same)[claim] for claim in ("S3.8", "S3.12")] == ["supported"] * 2
    unlike = changed(same, lambda row: row.engine == "threads", **other)
    assert [verdicts(SCALE, unlike)[claim] for claim in ("S3.8", "S3.12")] == ["not testable"] * 2
    by_uring = source(tmp_path, [driven, synthetic_scale.row(2000, engine="uring", per_second=60_000)])
    assert answers(SCALE, by_uring, "io_uring against epoll") == [("io_uring", "")]
    unlike = changed(by_uring, lambda row: row.engine == "uring", **other)
    assert answers(SCALE, unlike, "io_uring against epoll") == []


def test_engines_with_two_rows_or_at_another_core_distance_support_no_claim(tmp_path: Path) -> None:
    own = synthetic_scale.row(2000, engine="threads", connecting_ms=30, kib=100)
    table = [synthetic_scale.row(2000), own]
    claims = ("S3.8", "S3.12")
    twice = source(tmp_path, [*table, synthetic_scale.row(2000, per_second=20_000)])
    assert [verdicts(SCALE, twice)[claim] for claim in claims] == ["not testable"] * 2
    far = changed(source(tmp_path, table), lambda row: row.engine == "threads", round_trip_ns=370.0)
    assert [verdicts(SCALE, far)[claim] for claim in claims] == ["not testable"] * 2


def test_threads_that_switch_are_judged_by_rows_of_the_same_work(tmp_path: Path) -> None:
    rates = {10: 30_000, 100: 20_000, 300: 10_000}
    table = [synthetic_scale.row(count, engine="threads", per_second=rate) for count, rate in rates.items()]
    of = source(tmp_path, table)
    of = changed(of, lambda row: row.clients == 300, server_switches_per_s=1e5)
    assert verdicts(SCALE, of)["S3.7"] == "supported"
    for change in ({"messages": 40.0}, {"round_trip_ns": 370.0}):
        assert verdicts(SCALE, changed(of, lambda row: row.clients == 300, **change))["S3.7"] == "not testable"


def test_a_capacity_model_beside_an_invalid_row_supports_no_limit(tmp_path: Path) -> None:
    model = {"capacity rdma": "9 KiB; memory: 750000; queue pairs: 5000; at most 200000, bound by memory"}
    model |= {"capacity rdma, a thread for each": "9 KiB; threads: 30000; at most 1"}
    of = source(tmp_path, [synthetic_scale.row(200), synthetic_scale.row(1000)])
    of = replace(of, environment=of.environment | model)
    claims = ("S3.9a", "S3.9b", "S3.9c", "S3.13")
    assert [verdicts(SCALE, of)[claim] for claim in claims] == ["supported"] * 4
    one = invalid(of, lambda row: row.clients == 200)
    assert [verdicts(SCALE, one)[claim] for claim in claims] == ["not testable"] * 4
    assert all("forged" in because(SCALE, one, claim) for claim in claims)
    empty = replace(of, rows=())
    assert [verdicts(SCALE, empty)[claim] for claim in claims] == ["not testable"] * 4


@pytest.mark.parametrize(
    ("words", "values", "obstacle"),
    [
        ({"device": "mlx5_7"}, {}, "other device"),
        ({}, {"mtu": 1024.0}, "other MTU"),
        ({"device": ""}, {}, "none stated"),
    ],
)
def test_rc_and_ud_of_other_devices_or_mtus_are_not_compared(
    tmp_path: Path, words: dict[str, str], values: dict[str, float], obstacle: str
) -> None:
    path = tmp_path / "synthetic.csv"
    path.write_text(synthetic.csv_text(), encoding="utf-8")
    of = read(path)
    assert verdicts(RCUD, of)["S1.1"] == "supported"
    rows = tuple(
        replace(each, words=each.words | words, values=each.values | values) if each.mode == "UD" else each
        for each in of.rows
    )
    other = replace(of, rows=rows)
    found = [each for each in answers(RCUD, other, "RC against UD") if "n/a" not in each[1]]
    assert found and all(winner == "n/a" and obstacle in reason for winner, reason in found)
    untestable = ("S1.1", "S1.2", "S1.4", "S1.5", "S1.6a", "S1.6c")
    assert [verdicts(RCUD, other)[claim] for claim in untestable] == ["not testable"] * len(untestable)


def test_window_modes_of_other_devices_explain_no_lead(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.csv"
    path.write_text(synthetic.csv_text(), encoding="utf-8")
    of = read(path)
    assert verdicts(RCUD, of)["S1.7a"] == "supported"
    rows = tuple(
        replace(each, words=each.words | {"device": "mlx5_7"}) if each.window_mode == "credit" else each
        for each in of.rows
    )
    other = replace(of, rows=rows)
    assert verdicts(RCUD, other)["S1.7a"] == "not testable"
    assert {winner for winner, _ in answers(RCUD, other, "Local against credit windows")} == {"n/a"}
