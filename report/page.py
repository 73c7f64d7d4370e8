# SPDX-License-Identifier: Apache-2.0
"""Makes the one page of a report: its values as a template needs them, and the template.

The page is one file and loads nothing from outside: style, program and Chart.js are in it, and its
own policy (CSP) forbids every request. Templates escape all text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from report.baseline import Compared
from report.charts import Chart, Line
from report.claims import Judgement
from report.compare import NO_DIFFERENCE, NOT_COMPARED, Comparison
from report.experiment import Experiment
from report.spectrum import TICKS, Spectrum
from report.tables import NO_EVIDENCE, NO_VALUE, Row, Source, TableError, digits

FOLDER = Path(__file__).resolve().parent
CHARTS_MAX = 60  # plots of one experiment on one page
# In a wheel, and of Debian's libjs-chart.js. The first one that exists is used.
LIBRARIES = (FOLDER.parent / "chart.js" / "chart.min.js", Path("/usr/share/javascript/chart.js/chart.min.js"))


@dataclass(frozen=True)
class Part:
    """The part of the page about one experiment."""

    experiment: Experiment
    sources: list[Source]
    published: Source | None  # beside the sources; None if one of them is published
    judged: dict[str, list[Judgement]]  # by label
    charts: list[Chart]
    has_more_charts: bool  # beyond CHARTS_MAX
    spectra: list[Spectrum]

    @property
    def beside(self) -> list[Source]:
        return [*self.sources, *([self.published] if self.published else [])]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the value by which its column is sorted."""

    text: str
    value: float | None = None
    kind: str = "number"  # number, text or mark


def render(parts: list[Part], compared: Compared | None) -> str:
    """Return the page. `compared` is this run beside the baseline, if there is one."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"digits": digits, "cells": row_cells, "percent": _percent}
    environment.globals |= {"columns_used": columns_used, "words_used": words_used, "no_evidence": NO_EVIDENCE}
    library = next((path for path in LIBRARIES if path.exists()), None)
    if library is None:
        raise TableError(f"there is no {LIBRARIES[-1]}: install Debian's package libjs-chart.js")
    plots = {f"{part.experiment.name}-{chart.name}": chart_data(chart) for part in parts for chart in part.charts}
    for part in parts:
        if part.spectra:
            plots[f"{part.experiment.name}-spectrum"] = spectrum_data(part)
    return environment.get_template("page.html").render(
        parts=parts,
        questions=[question for part in parts for question in questions_of(part)],
        compared=compared,
        plots=plots,
        # These three are of this package and of Chart.js, so that they need no escape.
        style=_own("page.css"),
        script=_own("page.js"),
        library=Markup(library.read_text(encoding="utf-8")),
    )


def _own(name: str) -> Markup:
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Verdict:
    """A comparison as a row of the table of verdicts. The ratio is that of the faster one."""

    label: str
    published: bool
    comparison: Comparison
    bounds: tuple[float, float, float] | None

    @property
    def winner(self) -> str:
        return self.comparison.winner


@dataclass(frozen=True)
class Tally:
    """The verdicts of one group of cells, counted."""

    group: str
    label: str
    published: bool
    counts: list[tuple[str, str, int]]  # first, second, no difference, n/a: name, rank, number
    range: tuple[float, float] | None  # the second over the first, where they can be compared


@dataclass(frozen=True)
class Asked:
    """A question with its answers in all cells."""

    question: object
    tallies: list[Tally]
    verdicts: list[Verdict]


def questions_of(part: Part) -> list[Asked]:
    """Return the questions of an experiment, in the order of its comparisons."""
    found: dict[str, list[Verdict]] = {}
    for source in part.beside:
        for comparison in part.experiment.compare(source):
            verdict = Verdict(source.label, source.published, comparison, _faster_over_slower(comparison))
            found.setdefault(comparison.question.title, []).append(verdict)
    return [Asked(verdicts[0].comparison.question, _tallies(verdicts), verdicts) for verdicts in found.values()]


def _faster_over_slower(comparison: Comparison) -> tuple[float, float, float] | None:
    if comparison.obstacle:
        return None
    low, middle, high = comparison.bounds
    if comparison.winner != comparison.question.first:
        return low, middle, high
    return 1 / high, 1 / middle, 1 / low if low > 0 else float("inf")


def _tallies(verdicts: list[Verdict]) -> list[Tally]:
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.label, verdict.comparison.group), []).append(verdict)
    made = []
    for (label, group), members in groups.items():
        question = members[0].comparison.question
        ranks = {question.second: "second", question.first: "first", NO_DIFFERENCE: "even", NOT_COMPARED: "none"}
        winners = [member.winner for member in members]
        counts = [(name, rank, winners.count(name)) for name, rank in ranks.items() if name in winners]
        ratios = sorted(member.comparison.ratio for member in members if not member.comparison.obstacle)
        ends = (ratios[0], ratios[-1]) if ratios else None
        made.append(Tally(group, label, members[0].published, counts, ends))
    return made


def row_cells(row: Row, words: list[str], columns: list[str]) -> list[Cell]:
    """Return the cells of a row in the table of rows, after its name."""
    texts = [Cell(row.words.get(name, ""), None, "text") for name in words]
    return texts + [_number(row, name) for name in columns]


def columns_used(experiment: Experiment, source: Source) -> list[str]:
    return [name for name in experiment.columns if any(row.get(name) for row in source.rows)]


def words_used(experiment: Experiment, source: Source) -> list[str]:
    """Return the columns of text in which the rows differ."""
    return [name for name in experiment.words if len({row.words.get(name) for row in source.rows}) > 1]


def _number(row: Row, name: str) -> Cell:
    value = row.get(name)
    if value is None:
        return Cell(NO_VALUE, None)
    if row.has_interval(name):
        low, middle, high = (digits(each) for each in row.interval(name))
        return Cell(f"{middle} [{low}, {high}]", value)
    return Cell(digits(value), value)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def chart_data(chart: Chart) -> dict[str, object]:
    """Return a chart as the page's program reads it."""
    return {
        "x": chart.x_axis,
        "y": chart.y_axis,
        "logX": True,
        "logY": chart.log_y,
        "ticks": [[x, text] for x, text in sorted(chart.ticks.items())],
        "views": [{"name": chart.title, "lines": [_line(line) for line in chart.lines]}],
    }


def spectrum_data(part: Part) -> dict[str, object]:
    views = [{"name": each.name, "lines": [_line(line) for line in each.lines]} for each in part.spectra]
    ticks = [[x, text] for x, text in TICKS.items()]
    axis = part.experiment.latency.axis
    return {"x": "Percentile", "y": axis, "logX": True, "logY": True, "ticks": ticks, "views": views}


def _line(line: Line) -> dict[str, object]:
    points = [[point.x, point.low, point.middle, point.high] for point in line.points]
    doubtful = [[point.x, point.middle, point.validity, point.reason] for point in line.doubtful]
    return {
        "label": line.label,
        "colour": line.colour,
        "dashed": line.dashed,
        "marker": line.marker,
        "behind": line.behind,
        "points": points,
        "doubtful": doubtful,
    }
