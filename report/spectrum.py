# SPDX-License-Identifier: Apache-2.0
"""The latency percentiles of each row, from p50 to p99.99 and the maximum.

They come from the histograms of the repetitions, all together, which the JSON has. Without them,
as in CSV, they are the columns of the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from report.charts import COLOURS, MARKERS, Chart, Line, Point, gid_of
from report.experiment import Experiment
from report.tables import Row, Source

PERCENTILES = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
COLUMNS = {50: "p50", 90: "p90", 99: "p99", 99.9: "p999", 99.99: "p9999"}
MAXIMUM = 100_000.0  # the place of the maximum on the axis, beyond p99.99
# The axis is 1 / (1 - quantile): 2 is the median, 100 is P99.
TICKS = {2.0: "P50", 10.0: "P90", 100.0: "P99", 1000.0: "P99.9", 10_000.0: "P99.99", MAXIMUM: "max"}
PICTURES_MAX = 4  # pictures of one experiment; the page has all spectra


@dataclass(frozen=True)
class Spectrum:
    name: str  # the cell in words
    lines: list[Line]


def spectra(experiment: Experiment, sources: list[Source]) -> list[Spectrum]:
    """Return the spectra of all cells that have at least two percentiles."""
    groups: dict[str, list[tuple[str, Row]]] = {}
    for source in sources:
        for row in source.rows:
            name, label = experiment.spectrum(row)
            named = f"{source.label}: {label}" if len(sources) > 1 else label
            groups.setdefault(name, []).append((named, row))
    made = []
    for name, rows in groups.items():
        lines = []
        for label, row in rows:
            points = _points(row, experiment)
            if len(points) > 1:
                place = len(lines)
                turn, place_in_turn = divmod(place, len(COLOURS))
                colour, marker = COLOURS[place_in_turn], MARKERS[turn % len(MARKERS)]
                gid, dashed = f"spectrum-{place}", turn % 2 == 1
                lines.append(Line(label, gid, colour, points, [], dashed, marker, behind=not row.usable))
        if lines:
            made.append(Spectrum(name, lines))
    return made


def pictured(found: list[Spectrum], experiment: Experiment) -> list[Chart]:
    """Return charts of at most PICTURES_MAX spectra, evenly spaced from first to last."""
    last = min(PICTURES_MAX, len(found)) - 1
    chosen = [found[round(place * (len(found) - 1) / max(last, 1))] for place in range(last + 1)]
    rest = f"The page has all {len(found)} of them." if len(found) > len(chosen) else ""
    return [
        Chart(
            name=f"latency_percentiles_{gid_of(each.name)}",
            title="Latency percentiles",
            subtitle=f"{each.name}, all repetitions together. {rest}".rstrip(),
            x_axis="Percentile",
            y_axis=experiment.latency.axis,
            ticks=TICKS,
            lines=each.lines,
            notes=[],
        )
        for each in chosen
    ]


def _points(row: Row, experiment: Experiment) -> list[Point]:
    latency = experiment.latency
    buckets = _merged(row, latency.histogram)
    values: dict[float, float] = {}
    if buckets:
        total, largest = sum(count for _, count in buckets), _largest(row, latency.histogram)
        for percentile in PERCENTILES:
            # Fewer values than this leave nothing above the percentile.
            if total * (100 - percentile) >= 100:
                value = min(_quantile(buckets, percentile, total), largest)
                values[100 / (100 - percentile)] = value / latency.unit_ns
        values[MAXIMUM] = largest / latency.unit_ns
    else:
        for percentile, name in COLUMNS.items():
            if value := row.get(f"{latency.prefix}{name}{latency.suffix}"):
                values[100 / (100 - percentile)] = value
        if value := row.get(f"{latency.prefix}max{latency.suffix}"):
            values[MAXIMUM] = value
    return [Point(x, y, y, y, row.validity, row.reason) for x, y in sorted(values.items()) if y > 0]


def _histograms(row: Row, name: str) -> list[dict[str, object]]:
    return [found for each in row.repetitions if isinstance(found := each.get(name), dict)]


def _merged(row: Row, name: str) -> list[tuple[float, int]]:
    """Return the buckets of all repetitions: the last value of each, and its count, ascending."""
    counts: dict[float, int] = {}
    for histogram in _histograms(row, name):
        buckets = histogram.get("buckets")
        for bucket in buckets if isinstance(buckets, list) else []:
            if isinstance(bucket, list) and len(bucket) == 2 and all(isinstance(each, int) for each in bucket):
                counts[bucket[0]] = counts.get(bucket[0], 0) + bucket[1]
    return sorted(counts.items())


def _largest(row: Row, name: str) -> float:
    found = [histogram.get("max") for histogram in _histograms(row, name)]
    return max((float(each) for each in found if isinstance(each, int | float)), default=0.0)


def _quantile(buckets: list[tuple[float, int]], percentile: float, total: int) -> float:
    """Return the nearest rank, as base/histogram.h does."""
    rank, seen = max(1, math.ceil(total * percentile / 100)), 0
    for last, count in buckets:
        seen += count
        if seen >= rank:
            return last
    return buckets[-1][0]
