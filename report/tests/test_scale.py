# SPDX-License-Identifier: Apache-2.0
"""Many clients: tables, verdicts and the page. All figures are SYNTHETIC."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from report import tables
from report.compare import interval_text
from report.scale import charts, claims, rows
from report.scale.experiment import SCALE
from report.tests.running import OWN_SCRIPTS, read, run
from report.tests.synthetic_scale import COUNTS, csv_text, not_run, redis_row, row


def source(tmp_path: Path, table: list[dict[str, object]]) -> rows.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(csv_text(table), encoding="utf-8")
    return read(path)


def test_io_uring_is_compared_with_epoll_and_judges_no_claim(tmp_path: Path) -> None:
    table = [row(count) for count in COUNTS]
    faster = {"per_second": 60000, "spread": (0.95, 1.0, 1.05)}
    table += [row(100, engine="uring", **faster), row(1000, engine="uring", rate=500)]
    of = source(tmp_path, table)
    assert {line.clients: line.engine for line in of.cells("rdma")} == dict.fromkeys(COUNTS, "epoll")
    (only,) = SCALE.compare(of)
    assert (only.question.title, only.one.clients, only.winner) == ("io_uring against epoll", 100, "io_uring")
    assert interval_text(only.bounds) == "2.00 [1.88, 2.12]"


def verdicts(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in SCALE.judge_claims(of)}


def both_paces(**changes: object) -> list[dict[str, object]]:
    return [row(count, rate=rate, **changes) for rate in (0, 1000) for count in COUNTS]


def test_every_claim_of_the_file_has_a_judge() -> None:
    with open(tables.PUBLISHED / "claims.csv", encoding="utf-8", newline="") as file:
        assert {line["id"] for line in csv.DictReader(file) if line["system"] == "connection_scale"} == set(
            claims.JUDGES
        )


def test_published_rows_support_no_claim() -> None:
    published = SCALE.published()
    assert published.published and len(published.rows) == 6
    assert set(verdicts(published).values()) == {"not testable"}


def test_a_server_as_it_was_claimed_supports_what_can_be_tested(tmp_path: Path) -> None:
    found = verdicts(source(tmp_path, both_paces()))
    good = ("1", "2", "3a", "3b", "4", "6b", "10", "11", "14")
    assert {number: found[f"S3.{number}"] for number in good} == dict.fromkeys(good, "supported")
    assert all(found[f"S3.{number}"] == "not testable" for number in ("5", "7", "8", "9a", "9b", "9c", "12"))
    assert found["S3.13"] == "contradicted", "20000 queue pairs are more than 10,000"


@pytest.mark.parametrize(
    "claim,changes",
    [
        ("S3.1", {"lost": 200}),
        ("S3.2", {"connect_ms": 30}),
        ("S3.3a", {"latency_ms": 0.6}),
        ("S3.3b", {"latency_max_ms": 7}),
        ("S3.4", {"kib": 12}),
        ("S3.6b", {"per_second": 1000, "rate": 0}),
        ("S3.11", {"connecting_ms": 100}),
        ("S3.14", {"cpu_percent": 130}),
    ],
)
def test_one_row_of_20000_clients_contradicts(tmp_path: Path, claim: str, changes: dict[str, object]) -> None:
    table = [
        row(count, **({"rate": rate} | (changes if count == 20000 else {})))
        for rate in ((0,) if "rate" in changes else (0, 1000))
        for count in COUNTS
    ]
    assert verdicts(source(tmp_path, table))[claim] == "contradicted"


def test_a_peak_at_1000_clients_is_supported_if_it_is_the_claimed_one(tmp_path: Path) -> None:
    rates = {10: 924, 100: 6337, 1000: 9656, 5000: 4808, 10000: 2462, 20000: 2342}
    assert (
        verdicts(source(tmp_path, [row(count, per_second=rate) for count, rate in rates.items()]))["S3.6a"]
        == "supported"
    )
    rates[5000] = 12000
    assert (
        verdicts(source(tmp_path, [row(count, per_second=rate) for count, rate in rates.items()]))["S3.6a"]
        == "contradicted"
    )


@pytest.mark.parametrize(
    ("threads_ms", "clients", "verdict"),
    [(30, 2000, "supported"), (15, 2000, "contradicted"), (30, 1000, "not testable")],
)
def test_thread_creation_is_judged_by_both_engines_above_1000_clients(
    tmp_path: Path, threads_ms: float, clients: int, verdict: str
) -> None:
    table = [row(clients), row(clients, engine="threads", connecting_ms=threads_ms)]
    assert verdicts(source(tmp_path, table))["S3.12"] == verdict


def with_model(tmp_path: Path, **capacity: str) -> dict[str, str]:
    of = source(tmp_path, [row(200), row(1000)])
    environment = of.environment | {f"capacity {kind.replace('_', ', ')}": text for kind, text in capacity.items()}
    return verdicts(replace(of, environment=environment))


def test_the_capacity_model_decides_each_limit(tmp_path: Path) -> None:
    text = "9 KiB; memory: {}; descriptors: 20000; queue pairs: {}; at most {}, bound by memory"
    ours = {"rdma": text.format(400000, 1 << 20, 400000), "rdma_a thread for each": "9 KiB; threads: 96000; at most 1"}
    found = with_model(tmp_path, **ours)
    assert [found[f"S3.{number}"] for number in ("9a", "9b", "9c", "13")] == [
        *("contradicted", "contradicted", "supported", "contradicted")
    ]
    theirs = {"rdma": text.format(750000, 5000, 5000), "rdma_a thread for each": "9 KiB; threads: 30000; at most 1"}
    found = with_model(tmp_path, **theirs)
    assert [found[f"S3.{number}"] for number in ("9a", "9b", "9c", "13")] == [
        *("supported", "supported", "contradicted", "supported")
    ]


def test_few_clients_do_not_support_a_claim_about_scale(tmp_path: Path) -> None:
    assert set(verdicts(source(tmp_path, [row(10), row(100)])).values()) == {"not testable"}


def test_latency_at_full_load_does_not_decide_the_claim(tmp_path: Path) -> None:
    found = claims.latency_flat(source(tmp_path, [row(count) for count in COUNTS]))
    assert found.verdict == "not testable" and "--rate" in found.because


def test_rows_that_are_not_valid_support_no_claim(tmp_path: Path) -> None:
    forged = [each | {"jain": 0.5, "validity": "valid"} for each in both_paces()]
    of = source(tmp_path, forged)
    assert {each.validity for each in of.rows} == {"invalid"}, "a verdict that stands in the file is not believed"
    assert set(verdicts(of).values()) == {"not testable"}


def test_every_synthetic_row_is_valid_as_the_judge_sees_it(tmp_path: Path) -> None:
    table = [*both_paces(), row(100, engine="threads"), row(100, transport="tcp"), redis_row(100, 50000)]
    found = {(each.validity, each.reason) for each in source(tmp_path, table).rows}
    assert found == {("valid", "")}
    (failed,) = source(tmp_path, [row(100, lost=1)]).rows
    assert failed.validity == "suspect" and "99 of 100 clients succeeded, 1 lost" in failed.reason


def test_redis_is_compared_with_the_rows_of_the_same_cell_and_judges_no_claim(tmp_path: Path) -> None:
    table = [row(100), row(100, transport="tcp", per_second=20000), row(1000), redis_row(100, 50000)]
    of = source(tmp_path, table)
    beside = [each for each in SCALE.compare(of) if each.question.first == "redis"]
    assert [(each.other.transport, each.one.clients) for each in beside] == [("rdma", 100), ("tcp", 100)]
    assert {line.system for line in of.plain} == {"verbena"}
    assert [interval_text(each.bounds) for each in beside] == ["0.60 [0.59, 0.61]", "0.40 [0.40, 0.40]"]
    chart = next(chart for chart in SCALE.charts([of], SCALE.published()) if chart.name == "echoes_vs_clients")
    assert "redis, tcp" in [line.label for line in chart.lines if line.behind]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scale")
    cells = [(transport, count) for transport in ("rdma", "tcp") for count in COUNTS]
    table = [
        row(count, transport=transport, per_second=1000.0 * (number + 1))
        for number, (transport, count) in enumerate(cells)
    ]
    table.append(not_run(30000, "<script>"))
    (folder / "synthetic.csv").write_text(csv_text(table), encoding="utf-8")
    done = run("synthetic.csv", "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_page_shows_every_claim_and_every_picture_and_escapes_its_text(made: Path) -> None:
    page = (made / "page.html").read_text(encoding="utf-8")
    assert all(f'<span class="id">{claim}</span>' in page for claim in claims.JUDGES)
    assert all(f'<figure id="scale-{quantity.name}"' in page for quantity in charts.QUANTITIES)
    assert "vb_synthetic, software NIC" in page and "SYNTHETIC" in page and page.count("<script") == OWN_SCRIPTS
    ids = re.findall(r'\bid="([^"]+)"', page.partition("<script")[0])
    assert len(ids) == len(set(ids))


def test_each_row_is_drawn_and_the_published_curve_is_behind(made: Path) -> None:
    space = "{http://www.w3.org/2000/svg}"
    tree = ElementTree.parse(made / "plots" / "echoes_vs_clients.svg")
    groups = {group.get("id"): group for group in tree.iter(f"{space}g")}
    for name in (
        "series-published",
        "series-synthetic-rdma-messages_per_second",
        "series-synthetic-tcp-messages_per_second",
    ):
        assert len(re.findall(r"[ML] (\S+) (\S+)", groups[name].find(f"{space}path").get("d"))) == len(COUNTS)


def test_json_has_rows_and_verdicts(made: Path) -> None:
    document = json.loads((made / "facts.json").read_text(encoding="utf-8"))
    assert len(document["claims"]["synthetic"]) == len(claims.JUDGES) and len(document["sources"][0]["rows"]) == 13


def test_a_malformed_file_is_a_one_line_error(tmp_path: Path) -> None:
    for number, text in enumerate(
        ("clients,success_percent\n10\n", "clients,success_percent\nten,100\n", "clients,success_percent\n")
    ):
        (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
        done = run("bad.csv", "-o", "page.html", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), number
