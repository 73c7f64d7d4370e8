# SPDX-License-Identifier: Apache-2.0
"""The program in the way its users run it: page, pictures, JSON and exit codes."""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report import tables
from report.claims import read_claims
from report.rcud import claims
from report.spectrum import PICTURES_MAX
from report.tests import synthetic
from report.tests.running import OWN_SCRIPTS, read, run

NAMES = [f"{quantity}_vs_message_size_window_{window}" for quantity in ("mops", "throughput") for window in (4, 64)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "synthetic.csv").write_text(synthetic.csv_text(), encoding="utf-8")
    result = run("synthetic.csv", "-o", "page.html", "--plots", "plots", "--json", "facts.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_four_charts_and_four_spectra_are_distinct_pictures_in_both_formats(made: Path) -> None:
    for suffix in ("png", "svg"):
        stems = {path.stem for path in (made / "plots").glob(f"*.{suffix}")}
        spectra = {stem for stem in stems if stem.startswith("latency_percentiles_")}
        assert stems - spectra == set(NAMES) and len(spectra) == PICTURES_MAX
        assert (
            len({hashlib.sha256((made / "plots" / f"{name}.{suffix}").read_bytes()).hexdigest() for name in NAMES}) == 4
        )


def test_drawn_points_are_the_rows(made: Path) -> None:
    table = read(made / "synthetic.csv").rows
    drawn = [row for row in table if (row.mode, row.window, row.window_mode) == ("RC", 64, "local")]
    for name, values in (("mops", [row.mops for row in drawn]), ("throughput", [row.gib for row in drawn])):
        tree = ElementTree.parse(made / "plots" / f"{name}_vs_message_size_window_64.svg")
        space = "{http://www.w3.org/2000/svg}"
        (line,) = (group for group in tree.iter(f"{space}g") if group.get("id") == "series-synthetic-RC-send-local")
        points = re.findall(r"[ML] (\S+) (\S+)", line.find(f"{space}path").get("d"))
        heights = [float(y) for _, y in points]
        assert len(heights) == len(values)
        # The y axis is linear, so heights are proportional to values.
        scale = (heights[0] - heights[-1]) / (values[-1] - values[0])
        for height, value in zip(heights, values, strict=True):
            assert heights[0] - height == pytest.approx(scale * (value - values[0]), abs=0.01)


def test_the_page_loads_nothing_from_outside_and_its_ids_are_unique(made: Path) -> None:
    class Collector(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.ids: list[str] = []
            self.references: list[str] = []

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag not in ("link", "iframe", "img") and not (tag == "script" and dict(attributes).get("src"))
            for name, value in attributes:
                if name == "id":
                    self.ids.append(value or "")
                elif name in ("href", "xlink:href", "src"):
                    self.references.append(value or "")

    page = (made / "page.html").read_text(encoding="utf-8")
    collector = Collector()
    collector.feed(page)
    assert len(collector.ids) == len(set(collector.ids))
    assert all(reference.startswith("#") and reference[1:] in collector.ids for reference in collector.references)
    assert "@import" not in page
    assert all(target[1:] in collector.ids for target in re.findall(r"url\((#[^)]*)\)", page))


def test_page_says_software_and_shows_every_claim_and_row(made: Path) -> None:
    page = (made / "page.html").read_text(encoding="utf-8")
    assert "vb_synthetic, software NIC" in page
    assert "hardware NIC" not in page
    assert "SYNTHETIC data made by a test" in page
    for claim in read_claims("rc_vs_ud"):
        assert f'<span class="id">{claim.id}</span>' in page
    assert page.count("msg 8192 &gt; UD max 4096</td>") >= 4


def test_json_has_facts_cells_rows_and_verdicts_of_both_tables(made: Path) -> None:
    document = json.loads((made / "facts.json").read_text(encoding="utf-8"))
    assert set(document["claims"]) == {"synthetic", "rc_vs_ud"}
    assert len(document["claims"]["synthetic"]) == len(claims.JUDGES)
    (source,) = document["sources"]
    assert source["kind"] == "software"
    assert len(source["rows"]) == len(synthetic.rows())
    assert "Window 4, credit: no difference at 32, 64, 128, 256, 512, 1024, 2048, 4096 B." in source["facts"]


def test_several_files_stand_side_by_side(made: Path) -> None:
    (made / "second.json").write_text(synthetic.json_text(), encoding="utf-8")
    result = run(
        "synthetic.csv", "second.json", tables.PUBLISHED / "rc_vs_ud.csv", "-o", "out/all.html", "--json", "-", cwd=made
    )
    assert result.returncode == 0, result.stderr
    assert [source["label"] for source in json.loads(result.stdout)["sources"]] == ["synthetic", "second", "rc_vs_ud"]
    assert (made / "out" / f"{NAMES[0]}.png").exists()


def test_text_of_a_table_is_escaped(made: Path) -> None:
    (made / "evil.csv").write_text(
        synthetic.csv_text(environment={"device": "<script>alert(1)</script>"}), encoding="utf-8"
    )
    assert run("evil.csv", "-o", "evil.html", "--plots", "evil", cwd=made).returncode == 0
    assert (made / "evil.html").read_text(encoding="utf-8").count("<script") == OWN_SCRIPTS


@pytest.mark.parametrize(
    "arguments,code", [(["--help"], 0), ([], 2), (["x.csv"], 2), (["missing.csv", "-o", "p.html"], 2)]
)
def test_exit_codes(tmp_path: Path, arguments: list[str], code: int) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == code
    assert ("examples:" in result.stdout) == (code == 0)
    if "missing.csv" in arguments:
        assert result.stderr.count("\n") == 1
        assert "missing.csv: No such file or directory" in result.stderr


def test_a_malformed_file_is_a_one_line_error_and_leaves_no_page(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("experiment,mode\nmsg_sweep,RC\n", encoding="utf-8")
    result = run("bad.csv", "-o", "page.html", cwd=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "page.html").exists()
