"""Many clients: tables, verdicts and the page. All figures are SYNTHETIC."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from report import tables
from report.scale import claims, page, pictures, rows
from report.tests.running import run
from report.tests.synthetic import table_text

COUNTS = (10, 100, 1000, 5000, 10000, 20000)


def row(clients: int, **changes: object) -> dict[str, object]:
    """A row of a server whose figures do not depend on the number of clients."""
    return {
        "experiment": "scale",
        "transport": "rdma",
        "clients": clients,
        "success_percent": 100,
        "avg_connect_ms": 15,
        "avg_latency_ms": 0.28,
        "messages_per_second": 100000,
        "peak_memory_mb": 10,
        "peak_threads": 3,
        "rate": 0,
        "connect_p50_ms": 14,
        "connect_p99_ms": 20,
        "latency_p50_ms": 0.2,
        "latency_p99_ms": 1,
        "latency_max_ms": 5,
        "server_kib_per_connection": 8.3,
        "server_switches_per_s": 100,
        "peak_clients": clients,
        "validity": "valid",
        "reason": "",
    } | changes


def csv_text(table: list[dict[str, object]]) -> str:
    return table_text(table, {"device": "vb_synthetic", "kind": "software", "memory_bytes": "8589934592"})


def source(tmp_path: Path, table: list[dict[str, object]]) -> rows.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(csv_text(table), encoding="utf-8")
    return rows.read(tables.read_table(path))


def test_io_uring_is_compared_with_epoll_and_judges_no_claim(tmp_path: Path) -> None:
    table = [
        row(count, engine="epoll", messages_per_second_low=99000, messages_per_second_high=101000) for count in COUNTS
    ]
    faster = {"messages_per_second": 200000, "messages_per_second_low": 190000, "messages_per_second_high": 210000}
    table += [row(100, engine="uring", **faster), row(1000, engine="uring", rate=500, **faster)]
    of = source(tmp_path, table)
    assert [(epoll.clients, uring.clients) for epoll, uring in of.engine_pairs()] == [(100, 100)]
    assert {line.clients: line.engine for line in of.cells("rdma")} == dict.fromkeys(COUNTS, "epoll")
    ((title, html),) = page.LAYOUT.more(of)
    assert title == "io_uring beside epoll" and "2.00 [1.88, 2.12]" in html and "io_uring</td>" in html


def verdicts(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in claims.judge_all(of)}


def both_paces(**changes: object) -> list[dict[str, object]]:
    return [row(count, rate=rate, **changes) for rate in (0, 1000) for count in COUNTS]


def test_every_claim_of_the_file_has_a_judge() -> None:
    with open(tables.PUBLISHED / "claims.csv", encoding="utf-8", newline="") as file:
        assert {line["id"] for line in csv.DictReader(file) if line["system"] == "connection_scale"} == set(
            claims.JUDGES
        )


def test_published_rows_support_no_claim() -> None:
    published = rows.published()
    assert published.published and len(published.rows) == 6
    assert set(verdicts(published).values()) == {"not testable"}


def test_a_server_as_it_was_claimed_supports_what_can_be_tested(tmp_path: Path) -> None:
    found = verdicts(source(tmp_path, both_paces()))
    assert [found[f"S3.{number}"] for number in (1, 2, 3, 4)] == ["supported"] * 4
    assert all(found[f"S3.{number}"] == "not testable" for number in (5, 7, 8, 9))


@pytest.mark.parametrize(
    "claim,changes",
    [
        ("S3.1", {"success_percent": 99}),
        ("S3.2", {"avg_connect_ms": 30}),
        ("S3.3", {"avg_latency_ms": 0.6}),
        ("S3.3", {"latency_max_ms": 7}),
        ("S3.4", {"server_kib_per_connection": 12}),
        ("S3.6", {"messages_per_second": 1000}),
    ],
)
def test_one_row_of_20000_clients_contradicts(tmp_path: Path, claim: str, changes: dict[str, object]) -> None:
    table = [each | (changes if each["clients"] == 20000 else {}) for each in both_paces()]
    assert verdicts(source(tmp_path, table))[claim] == "contradicted"


def test_a_peak_at_1000_clients_is_supported_if_it_is_the_claimed_one(tmp_path: Path) -> None:
    rates = {10: 924, 100: 6337, 1000: 9656, 5000: 4808, 10000: 2462, 20000: 2342}
    assert (
        verdicts(source(tmp_path, [row(count, messages_per_second=rate) for count, rate in rates.items()]))["S3.6"]
        == "supported"
    )
    rates[5000] = 12000
    assert (
        verdicts(source(tmp_path, [row(count, messages_per_second=rate) for count, rate in rates.items()]))["S3.6"]
        == "contradicted"
    )


def test_few_clients_do_not_support_a_claim_about_scale(tmp_path: Path) -> None:
    assert set(verdicts(source(tmp_path, [row(10), row(100)])).values()) == {"not testable"}


def test_latency_at_full_load_does_not_decide_the_claim(tmp_path: Path) -> None:
    found = claims.latency_flat(source(tmp_path, [row(count) for count in COUNTS]))
    assert found.verdict == "not testable" and "--rate" in found.because


def test_rows_that_are_not_valid_support_no_claim(tmp_path: Path) -> None:
    found = verdicts(source(tmp_path, both_paces(validity="invalid")))
    assert set(found.values()) == {"not testable"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scale")
    table = [row(count, transport=transport, reason="<script>") for transport in ("rdma", "tcp") for count in COUNTS]
    for number, each in enumerate(table):
        each["messages_per_second"] = 1000.0 * (number + 1)
    (folder / "synthetic.csv").write_text(csv_text(table), encoding="utf-8")
    done = run("synthetic.csv", "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_page_shows_every_claim_and_every_picture_and_escapes_its_text(made: Path) -> None:
    page = (made / "page.html").read_text(encoding="utf-8")
    assert all(f'<th scope="row">{claim}</th>' in page for claim in claims.JUDGES)
    assert all(f'<figure id="{quantity.name}">' in page for quantity in pictures.QUANTITIES)
    assert "vb_synthetic, software NIC" in page and "SYNTHETIC" in page and "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
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
    assert len(document["claims"]["synthetic"]) == len(claims.JUDGES) and len(document["sources"][0]["rows"]) == 12


def test_one_page_has_one_experiment(made: Path) -> None:
    done = run("synthetic.csv", tables.PUBLISHED / "rc_vs_ud.csv", "-o", "both.html", cwd=made)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert not (made / "both.html").exists()


def test_a_malformed_file_is_a_one_line_error(tmp_path: Path) -> None:
    for number, text in enumerate(
        ("clients,success_percent\n10\n", "clients,success_percent\nten,100\n", "clients,success_percent\n")
    ):
        (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
        done = run("bad.csv", "-o", "page.html", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), number
