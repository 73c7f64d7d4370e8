# SPDX-License-Identifier: Apache-2.0
"""An experiment as a value: what a report has to know about the tables of one benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from report import judge
from report.charts import Chart
from report.claims import Finding, Judgement, judge_each
from report.compare import Comparison
from report.tables import PUBLISHED, Row, Source, Table


@dataclass(frozen=True)
class Figure:
    """A column by which rows of two runs are compared."""

    column: str
    title: str
    more_is_better: bool = True


@dataclass(frozen=True)
class Section:
    """A table of an experiment alone, such as the bytes of headers. Its cells are text."""

    title: str
    note: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]
    words: tuple[str, ...] = ()  # the heads of columns of text


@dataclass(frozen=True)
class Latency:
    """The latencies of an experiment: a repetition's histogram, and a row's percentiles."""

    histogram: str = "latency_ns"
    prefix: str = ""  # with the suffix: the name of the first percentile is p50_us
    suffix: str = "_us"
    unit_ns: float = 1e3
    axis: str = "Latency (µs)"


@dataclass(frozen=True)
class Experiment:
    name: str  # as in `verbena bench NAME`
    title: str
    counts: str  # sentences: what a row is, and what counts
    rows: Callable[[Table], tuple[Row, ...]]  # a TableError says what is wrong
    claims: dict[str, Callable[[Source], Finding]]  # by the claim's id
    claims_note: str
    name_of: Callable[[Row], str]  # the cell of a row in words
    compare: Callable[[Source], list[Comparison]]
    charts: Callable[[list[Source], Source | None], Iterable[Chart]]  # made one after the other
    # The heads of the columns of numbers in the rows' table, by the name of the column. A column in
    # which every row is empty or 0 is left out.
    columns: dict[str, str]
    figures: tuple[Figure, ...]  # they are compared with those of an earlier run
    # The cell in whose plot a row's percentiles are, and the label of its line there.
    spectrum: Callable[[Row], tuple[str, str]]
    words: dict[str, str] = field(default_factory=dict)  # columns of text in the rows' table
    published_system: str = ""  # in bench/published/claims.csv
    published_table: str = ""  # a file of bench/published; empty if none was published
    latency: Latency = Latency()
    goals: Callable[[Source], list[Judgement]] = lambda _: []  # the goals of our own system
    facts: Callable[[Source], list[str]] = lambda _: []  # headline sentences
    sections: Callable[[list[Source]], list[Section]] = lambda _: []
    source: type[Source] = Source

    def read(self, table: Table, label: str) -> Source:
        rows = self.rows(table)
        published = self.published()
        is_published = published is not None and rows == published.rows
        if not is_published:
            rows = tuple(
                row if row.repetitions or row.validity in ("n/a", "invalid") else row.without_evidence() for row in rows
            )
        return self.source(label, table.environment, rows, is_published, table.kind)

    def published(self) -> Source | None:
        """Return the published table, judged as any table is."""
        return _published(self) if self.published_table else None

    def judge_claims(self, source: Source) -> list[Judgement]:
        """Judge the published claims from the rows of a source."""
        return judge_each(source, self.published_system, self.claims) if self.claims else []

    def __hash__(self) -> int:
        return hash(self.name)


@cache
def _published(experiment: Experiment) -> Source:
    table = judge.read_table(PUBLISHED / experiment.published_table)
    return experiment.source(table.path.stem, {}, experiment.rows(table), published=True)
