# SPDX-License-Identifier: Apache-2.0
"""Every published claim has a judge, and the verdicts follow the rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from report.rcud import charts, claims, compare, rows
from report.rcud.experiment import RCUD
from report.tables import PUBLISHED, digits
from report.tests import synthetic
from report.tests.running import read


def source(tmp_path: Path, table: list[dict[str, object]] | None = None) -> rows.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(synthetic.csv_text(table), encoding="utf-8")
    return read(path)


def verdicts(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in RCUD.judge_claims(of)}


def test_every_claim_of_the_file_has_a_judge_and_every_judge_a_claim() -> None:
    with open(PUBLISHED / "claims.csv", encoding="utf-8", newline="") as file:
        ids = {line["id"] for line in csv.DictReader(file) if line["system"] == "rc_vs_ud"}
    assert ids
    assert set(claims.JUDGES) == ids


def test_published_rows_judge_their_own_claims() -> None:
    assert verdicts(RCUD.published()) == {
        "S1.1": "supported",
        "S1.2": "contradicted",
        "S1.3": "contradicted",
        "S1.4": "not testable",
        "S1.5": "contradicted",
        "S1.6a": "contradicted",
        "S1.6b": "not testable",
        "S1.6c": "contradicted",
        "S1.7a": "not testable",
        "S1.7b": "contradicted",
    }


def test_the_table_itself_is_quoted_against_16_78() -> None:
    finding = claims.ud_leads_at_8192_window_64(RCUD.published(), "local")
    assert "10.76 GiB/s, not 16.78" in finding.because


def test_never_exceeds_is_contradicted_by_seven_published_sizes() -> None:
    finding = claims.rc_never_exceeds_ud(RCUD.published(), "local")
    assert "32, 64, 128, 256, 512, 1024, 2048 B at window 64" in finding.because


def test_verdicts_follow_the_synthetic_rows(tmp_path: Path) -> None:
    found = verdicts(source(tmp_path))
    assert found["S1.1"] == "supported"
    assert found["S1.3"] == "not testable"
    assert found["S1.5"] == found["S1.4"] == found["S1.6a"] == found["S1.6c"] == "contradicted"
    assert found["S1.6b"] == "not testable"
    assert found["S1.7a"] == "supported", "UD leads at window 4 with local windows alone"


def of_queue_pairs(tmp_path: Path, ud_rates: dict[int, float], **changes: object) -> rows.Source:
    """Return rows in which RC has 2 Mops with any number of queue pairs."""
    table = []
    for qps, rate in ud_rates.items():
        table.append(synthetic.row_of_queue_pairs("RC", qps, 2.0, **changes))
        table.append(synthetic.row_of_queue_pairs("UD", qps, rate, **changes))
    return source(tmp_path, table)


@pytest.mark.parametrize(
    ("ud_rates", "verdict"),
    [
        ({1: 1.0, 100: 3.0, 1000: 3.0}, "supported"),
        ({1: 3.0, 100: 3.0, 1000: 1.0}, "contradicted"),
        ({1: 3.0, 100: 3.0, 1000: 2.0}, "not testable"),
        ({1: 3.0, 100: 3.0}, "not testable"),
        ({1: 3.0}, "not testable"),
    ],
)
def test_one_queue_pair_of_ud_is_judged_against_many_of_rc(
    tmp_path: Path, ud_rates: dict[int, float], verdict: str
) -> None:
    of = of_queue_pairs(tmp_path, ud_rates)
    assert {row.validity for row in of.queue_pairs} == {"valid"}, [row.reason for row in of.queue_pairs]
    assert len(of.queue_pairs) == 2 * len(ud_rates) and not of.single
    found = verdicts(of)
    assert found["S1.6b"] == verdict
    assert found["S1.6a"] == "not testable", "one size at one window says nothing of others"


def test_rows_of_several_senders_do_not_decide_about_queue_pairs(tmp_path: Path) -> None:
    assert verdicts(of_queue_pairs(tmp_path, {100: 3.0, 1000: 3.0}, senders=4))["S1.6b"] == "not testable"


def test_rows_of_many_queue_pairs_stand_beside_the_same_cell_of_one(tmp_path: Path) -> None:
    of = source(tmp_path, [synthetic.row("RC", 64, 64, "credit", 2.0), synthetic.row_of_queue_pairs("RC", 4, 2.0)])
    assert (len(of.single), len(of.queue_pairs)) == (1, 1)


def test_rows_of_many_queue_pairs_have_a_chart_of_their_own(tmp_path: Path) -> None:
    table = [synthetic.row("RC", 64, 64, "credit", 2.0)]
    for senders in (1, 2):
        for qps in (2, 100):
            table += [synthetic.row_of_queue_pairs(mode, qps, 2.0, senders) for mode in ("RC", "UD")]
    *by_size, by_queue_pairs = charts.charts([source(tmp_path, table)], None)
    assert [chart.name for chart in by_size] == [
        "mops_vs_message_size_window_64",
        "throughput_vs_message_size_window_64",
    ]
    assert by_queue_pairs.name == "mops_vs_queue_pairs_64B_window_64"
    assert by_queue_pairs.ticks == {2: "2", 100: "100"}
    labels = [line.label for line in by_queue_pairs.lines]
    assert len(labels) == 4 and sum("2 senders" in label for label in labels) == 2, labels
    assert len({line.gid for line in by_queue_pairs.lines}) == 4
    assert all([point.x for point in line.points] == [2, 100] for line in by_queue_pairs.lines)


def test_a_lead_with_local_windows_only_is_reported(tmp_path: Path) -> None:
    finding = claims.ud_faster_without_acknowledgements(source(tmp_path))
    assert "UD leads in 8 cells with local windows, and in 0 of them" in finding.because


def test_ud_above_the_mtu_that_delivered_nothing_contradicts_its_lead(tmp_path: Path) -> None:
    table = [row for row in synthetic.rows() if not (row["mode"] == "UD" and row["msg"] == 8192)]
    table.append(synthetic.row("UD", 8192, 64, "local", 0.0))
    finding = claims.ud_leads_at_8192_window_64(source(tmp_path, table), "local")
    assert finding.verdict == claims.CONTRADICTED
    assert "posted 200000 messages" in finding.because


def test_overlapping_intervals_are_no_difference(tmp_path: Path) -> None:
    table = [synthetic.row("RC", 64, 4, "local", 1.00), synthetic.row("UD", 64, 4, "local", 1.03)]
    assert [cell.winner for cell in compare.rc_and_ud(source(tmp_path, table))] == ["no difference"]


def test_too_few_sizes_support_nothing(tmp_path: Path) -> None:
    table = [synthetic.row("RC", 64, 4, "local", 1.0), synthetic.row("UD", 64, 4, "local", 2.0)]
    assert verdicts(source(tmp_path, table))["S1.1"] == "not testable"


def test_rows_measured_at_different_core_distances_are_not_compared(tmp_path: Path) -> None:
    far = {"rtt_before_ns": 380, "rtt_after_ns": 390, "rtt_class": "far"}
    table = [synthetic.row("RC", 64, 4, "local", 1.0, **far), synthetic.row("UD", 64, 4, "local", 2.0)]
    (cell,) = compare.rc_and_ud(source(tmp_path, table))
    assert cell.winner == "n/a"
    assert "round trip moved" in cell.obstacle


def test_write_rows_never_enter_a_verdict(tmp_path: Path) -> None:
    writes = [synthetic.row("RC", size, 64, "local", 0.001, op="write") for size in synthetic.SIZES]
    assert verdicts(source(tmp_path, synthetic.rows() + writes)) == verdicts(source(tmp_path))


@pytest.mark.parametrize(
    "value,text",
    [
        (0.4449, "0.445"),
        (2.9961, "3.00"),
        (9.998, "10.0"),
        (0.01, "0.01"),
        (15.94, "15.9"),
        (1234.4, "1,234"),
        (0.0, "0"),
    ],
)
def test_numbers_have_three_significant_digits_and_no_padding(value: float, text: str) -> None:
    assert digits(value) == text
