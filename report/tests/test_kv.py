# SPDX-License-Identifier: Apache-2.0
"""The key-value store: tables, verdicts and the page. All figures are SYNTHETIC."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from report.kv import claims, goals, rows
from report.kv.experiment import KV
from report.tables import PUBLISHED
from report.tests.running import OWN_SCRIPTS, read, run
from report.tests.synthetic import table_text
from report.tests.synthetic_kv import rival, row

SIZES = (64, 1024, 4096, 65536, 1 << 20)


def both(gain: dict[int, float], **changes: object) -> list[dict[str, object]]:
    """Rows of eager, at a rate that falls with the size, and of rendezvous with `gain` times it."""
    made = []
    for op in ("SET", "GET"):
        for size, times in gain.items():
            eager = 200_000 * (64 / size) ** 0.5
            made += [row(op, "eager", size, eager, **changes), row(op, "rendezvous", size, eager * times, **changes)]
    return made


def swept(
    varied: str, column: str, rates: dict[int, float], spread: dict[int, float] | None = None
) -> list[dict[str, object]]:
    made = []
    for value, rate in rates.items():
        half = (spread or {}).get(value, 0.02) / 2
        more = {column: value, "varied": varied, "interval": (1 - half, 1 + half)}
        made.append(row("SET", "eager", 4096, rate, **more))
    return made


def source(tmp_path: Path, table: list[dict[str, object]]) -> rows.Source:
    path = tmp_path / "synthetic.csv"
    path.write_text(table_text(table, {"device": "vb_synthetic", "kind": "software"}), encoding="utf-8")
    return read(path)


def verdicts(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in KV.judge_claims(of)}


def test_published_rows_get_the_verdicts_of_verbena_check() -> None:
    faults = {(each.op, each.size): each.validity for each in KV.published().rows if not each.usable}
    assert faults == {
        ("SET", 262144): "suspect",
        ("GET", 4): "suspect",
        ("GET", 2048): "suspect",
        ("GET", 4096): "mislabelled",
    }


def test_the_published_table_supports_none_of_its_claims() -> None:
    """It has no size with both protocols, and no sweep of a parameter."""
    assert set(verdicts(KV.published()).values()) == {"not testable"}
    assert set(verdicts(KV.published())) == set(claims.JUDGES)


def test_a_table_as_it_was_claimed_supports_every_claim(tmp_path: Path) -> None:
    table = both({64: 1.1, 1024: 1.2, 4096: 1.5, 65536: 2.0, 1 << 20: 3.0})
    table += swept("depth", "rx_depth", {16: 50_000, 256: 90_000, 6000: 100_000})
    table += swept("warmup", "warmup", {0: 50_000, 10: 70_000, 50: 100_000, 500: 100_500})
    table += swept("iters", "iters", {100: 90_000, 60000: 100_000}, {100: 0.3, 60000: 0.01})
    assert set(verdicts(source(tmp_path, table)).values()) == {"supported"}


@pytest.mark.parametrize(
    ("claim", "gain"),
    [
        ("S2.1", {64: 0.5, 1024: 0.8, 4096: 1.2, 65536: 2.0}),
        ("S2.2", {64: 2.0, 1024: 1.5, 4096: 1.2, 65536: 1.0}),
        ("S2.3", {64: 0.5, 4096: 0.9, 65536: 1.0, 1 << 20: 1.1}),
    ],
)
def test_a_counterexample_contradicts_its_claim(tmp_path: Path, claim: str, gain: dict[int, float]) -> None:
    assert verdicts(source(tmp_path, both(gain)))[claim] == "contradicted"


def test_wide_intervals_leave_a_claim_untestable(tmp_path: Path) -> None:
    found = verdicts(source(tmp_path, both({64: 1.1, 4096: 1.2, 65536: 1.3}, interval=(0.77, 1.24))))
    assert (found["S2.1"], found["S2.2"], found["S2.3"]) == ("not testable",) * 3


@pytest.mark.parametrize(
    ("claim", "varied", "column"),
    [("S2.4", "depth", "rx_depth"), ("S2.5", "warmup", "warmup"), ("S2.6", "iters", "iters")],
)
def test_a_parameter_that_changes_nothing_contradicts(tmp_path: Path, claim: str, varied: str, column: str) -> None:
    table = swept(varied, column, {1: 100_000, 50: 100_100, 6000: 100_050})
    assert verdicts(source(tmp_path, table))[claim] == "contradicted"


def test_rows_that_are_not_valid_support_no_claim(tmp_path: Path) -> None:
    """Their repetitions differ too much; the file says that they are valid."""
    table = both({64: 1.1, 4096: 1.2, 65536: 1.3}, interval=(0.7, 1.3))
    assert {each["validity"] for each in table} == {"valid"}
    made = source(tmp_path, table)
    assert {each.validity for each in made.rows} == {"suspect"}
    assert set(verdicts(made).values()) == {"not testable"}


def test_a_verdict_in_the_file_counts_for_nothing(tmp_path: Path) -> None:
    table = both({64: 1.1, 4096: 1.2, 65536: 1.3})
    for each in table:
        each |= {"validity": "invalid", "reason": "made so"}
    assert {(each.validity, each.reason) for each in source(tmp_path, table).rows} == {("valid", "")}
    table[0] |= {"operations_per_second": 1e9, "validity": "valid"}
    assert source(tmp_path, table).rows[0].validity == "invalid"


def test_the_interval_of_a_median_is_that_of_the_program() -> None:
    assert rows.median_interval([1.0]) == (1.0, 1.0)
    assert rows.median_interval([float(value) for value in range(5)]) == (0.0, 4.0)
    assert rows.median_interval([float(value) for value in range(9)]) == (1.0, 7.0)
    assert rows.median_interval([float(value) for value in range(20)]) == (5.0, 14.0)


def promises(of: rows.Source) -> dict[str, str]:
    return {judgement.claim.id: judgement.finding.verdict for judgement in goals.judge_all(of)}


@pytest.mark.parametrize(
    ("part", "interval", "verdict"),
    [
        (0.95, (0.99, 1.01), "supported"),
        (0.8, (0.99, 1.01), "contradicted"),
        (0.85, (0.9, 1.1), "not testable"),
    ],
)
def test_auto_is_judged_against_the_better_one_of_each_size(
    tmp_path: Path, part: float, interval: tuple[float, float], verdict: str
) -> None:
    table = both({64: 0.5, 4096: 1.0, 65536: 2.0})
    better = {
        (each["op"], each["value_bytes"]): each
        for each in sorted(table, key=lambda each: each["operations_per_second"])
    }
    table += [
        row(op, "auto", size, part * each["operations_per_second"], interval=interval)
        for (op, size), each in better.items()
    ]
    assert promises(source(tmp_path, table)) == {"auto": verdict, "stalled": "not testable"}


def test_one_repetition_is_not_enough_for_a_goal(tmp_path: Path) -> None:
    made = source(tmp_path, [row("SET", proto, 64, 100) for proto in ("eager", "rendezvous", "auto")])
    once = tuple(replace(each, values=each.values | {"reps": 1}) for each in made.rows)
    assert set(promises(replace(made, rows=once)).values()) == {"not testable"}


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((0.9, 1.1, 2.0), "supported"), ((5.5, 6.0, 9.0), "contradicted"), ((1.0, 3.0, 8.0), "not testable")],
)
def test_the_cost_of_stalled_clients_is_judged_by_the_whole_interval(
    tmp_path: Path, times: tuple[float, float, float], verdict: str
) -> None:
    """Each repetition is compared with the one that was measured in turn with it."""
    low, middle, high = times
    alone = row("SET", "auto", 64, 100_000, varied="stalled", p99_times=(3.0, 2.0, 2.0, 2.0, 4.0))
    beside = row(
        "SET",
        "auto",
        64,
        100_000,
        varied="stalled",
        stalled=2,
        p99_times=(3 * low, 2 * middle, 2 * middle, 2 * middle, 4 * high),
    )
    made = source(tmp_path, [alone, beside])
    assert promises(made)["stalled"] == verdict
    assert made.rows[1].interval(rows.TIMES_ALONE) == pytest.approx(times, rel=0.001)
    assert rows.TIMES_ALONE not in made.rows[0].values


def test_the_page_has_every_picture_claim_and_comparison(tmp_path: Path) -> None:
    table = both({64: 0.8, 4096: 1.5, 65536: 2.0})
    for size in (64, 4096, 65536):
        slower = (64 / size) ** 0.5
        table.append(row("GET", "one-sided", size, 300_000 * slower))
        for op in ("SET", "GET"):
            table.append(row(op, "auto", size, 150_000 * slower))
            table.append(rival("redis", "unix", op, size, 60_000 * slower))
            table.append(rival("memcached", "tcp", op, size, 50_000 * slower))
    table += swept("warmup", "warmup", {0: 90_000, 50: 100_000})
    table.append(row("SET", "eager", 64, 1.0, window=16, failure="<script>"))
    (tmp_path / "kv.csv").write_text(
        table_text(table, {"device": "vb_synthetic", "kind": "software"}), encoding="utf-8"
    )
    done = run(
        "kv.csv",
        PUBLISHED / "kv_set_get.csv",
        "-o",
        "page.html",
        "--plots",
        "plots",
        "--json",
        "facts.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in (tmp_path / "plots").iterdir()}
    wanted = {f"{name}_{op}" for op in ("set", "get") for name in ("crossover",)} | {"sensitivity_warmup"}
    wanted |= {f"{name}_{op}_window1" for op in ("set", "get") for name in ("throughput", "latency")}
    assert wanted <= names, names
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f'<span class="id">{claim}</span>' in page for claim in claims.JUDGES)
    assert (
        "Eager against rendezvous" in page
        and "Goals of our own system" in page
        and page.count("<script") == OWN_SCRIPTS
    )
    assert "&lt;script&gt;" in page and "Ours against redis, the store" in page and "memcached, TCP" in page
    document = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))
    ours = [each for each in document["verdicts"] if each.get("ratio_of", [""])[-1] == "redis, unix socket"]
    assert [each["ratio"] for each in ours if "auto" in each["cell"]] == [
        pytest.approx((2.45, 2.5, 2.55), abs=0.006)
    ] * 6
    assert len(document["sources"][0]["rows"]) == len(table)
    assert [each["claim"]["id"] for each in document["sources"][0]["goals"]] == ["auto", "stalled"]


def test_the_published_curves_are_behind_those_of_the_table(tmp_path: Path) -> None:
    table = both({64: 0.8, 4096: 1.5, 65536: 2.0})
    (tmp_path / "kv.csv").write_text(
        table_text(table, {"device": "vb_synthetic", "kind": "software"}), encoding="utf-8"
    )
    done = run("kv.csv", "-o", "page.html", "--plots", "plots", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for op in ("set", "get"):
        (picture,) = (tmp_path / "plots").glob(f"throughput_{op}_window1.svg")
        svg = picture.read_text(encoding="utf-8")
        at = {
            name: svg.find(f'id="series-{name}"')
            for name in ("published-eager", "published-rendezvous", "eager", "rendezvous")
        }
        assert min(at.values()) >= 0, at
        # A line that is drawn first is behind the others.
        assert max(at["published-eager"], at["published-rendezvous"]) < min(at["eager"], at["rendezvous"]), at


def test_an_unknown_operation_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("op,protocol,value_bytes,gigabytes_per_second\nPUT,eager,1,1\n", encoding="utf-8")
    done = run("bad.csv", "-o", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "'PUT' is neither" in done.stderr
