# SPDX-License-Identifier: Apache-2.0
from cells import GIB, MOPS, OURS, OVERRUNS, US, Cell, Contestant, Metric, Sample, size_name
from table import MIXED, Run, markdown, records, rows_of


def cell(title: str, metrics: tuple[Metric, ...], *programs: str) -> Cell:
    return Cell("send", title, metrics, tuple(Contestant(name, lambda: Sample({})) for name in programs))


RATE = cell("SEND 8 B, window 4", (MOPS,), OURS, "UCX tag_bw", "UCT am_bw")
LATENCY = cell("SEND 8 B, one way", (US,), OURS, "UCX tag_lat")
BULK = cell("WRITE 1 MiB, window 16", (GIB, OVERRUNS), OURS, "iperf3")


def runs(of: Cell, program: str, *values: float, near: str = "near", metric: int = 0) -> list[Run]:
    return [Run(of, of.metrics[metric], program, value, near, 110.0, 104.0) for value in values]


def test_a_ratio_is_one_of_medians() -> None:
    (row,) = rows_of([RATE], runs(RATE, OURS, 1, 9, 10) + runs(RATE, "UCX tag_bw", 3, 3, 100))
    assert row.ratio("UCX tag_bw") == 3
    assert row.ratio("UCT am_bw") is None
    assert row.ratio(OURS) is None


def test_a_shorter_latency_is_a_ratio_above_one() -> None:
    (row,) = rows_of([LATENCY], runs(LATENCY, OURS, 0.1) + runs(LATENCY, "UCX tag_lat", 0.2))
    assert row.ratio("UCX tag_lat") == 2


def test_no_overrun_is_a_figure_and_has_no_ratio() -> None:
    (row,) = rows_of([BULK], runs(BULK, OURS, 0, 0, metric=1) + runs(BULK, "iperf3", 0, metric=1))
    assert row.title == "WRITE 1 MiB, window 16, overflowed"
    assert row.figures[OURS].median == 0
    assert row.ratio("iperf3") is None


def test_runs_of_different_classes_are_not_compared() -> None:
    rows = rows_of([RATE], runs(RATE, OURS, 10) + runs(RATE, "UCX tag_bw", 2, near="far"))
    assert [row.near for row in rows] == ["near", "far"]
    assert all(row.ratio("UCX tag_bw") is None for row in rows)


def test_runs_during_which_the_class_changed_are_left_out() -> None:
    assert rows_of([RATE], runs(RATE, OURS, 10, near=MIXED)) == []


def test_a_figure_is_the_median_with_its_range() -> None:
    (row,) = rows_of([RATE], runs(RATE, OURS, 5, 4, 1234))
    assert str(row.figures[OURS]) == "5 (4 to 1234)"


def test_there_is_a_table_for_each_class_and_a_line_for_each_program_beside_ours() -> None:
    rows = rows_of(
        [RATE, LATENCY],
        runs(RATE, OURS, 6, 8)
        + runs(RATE, "UCX tag_bw", 3.5)
        + runs(RATE, "UCT am_bw", 14)
        + runs(LATENCY, OURS, 0.25, near="far"),
    )
    assert markdown(rows, {}).splitlines() == [
        "### Cores: near",
        "",
        "| measured           | unit | line ns | runs |    verbena | beside     | median (range) | ours is better by |",
        "|--------------------|-----:|--------:|-----:|-----------:|------------|---------------:|------------------:|",
        "| SEND 8 B, window 4 | Mops |     107 |    1 | 7 (6 to 8) | UCX tag_bw |            3.5 |                2x |",
        "|                    |      |         |    1 |            | UCT am_bw  |             14 |              0.5x |",
        "",
        "### Cores: far",
        "",
        "| measured          | unit | line ns | runs | verbena | beside | median (range) | ours is better by |",
        "|-------------------|-----:|--------:|-----:|--------:|--------|---------------:|------------------:|",
        "| SEND 8 B, one way |   us |     107 |    1 |    0.25 | -      |              - |                 - |",
    ]


def test_a_program_without_figures_is_not_available_and_its_reason_is_in_a_table_of_its_own() -> None:
    reason = "iperf3 is not installed: apt-get install iperf3"
    rows = rows_of([BULK], runs(BULK, OURS, 1.5) + runs(BULK, OURS, 0, metric=1))
    text = markdown(rows, {(BULK.title, "iperf3"): reason}).splitlines()
    assert [line.split("|")[6:8] for line in text[4:6]] == [
        [" iperf3 ", "            n/a "],
        [" -      ", "              - "],
    ]
    assert text[6:9] == ["", "### Not measured", ""]
    assert text[-1] == f"| WRITE 1 MiB, window 16 | iperf3  | n/a: {reason} |"


def test_the_reason_is_shown_also_where_nothing_was_measured() -> None:
    text = markdown([], {(BULK.title, OURS): "no network namespaces here"})
    assert "| WRITE 1 MiB, window 16 | verbena | n/a: no network namespaces here |" in text


def test_a_long_reason_is_shortened_and_keeps_the_columns() -> None:
    line = markdown([], {(BULK.title, OURS): "ib_write_bw failed | " + "word " * 100}).splitlines()[-1]
    assert line.endswith("word ... |")
    assert line.count("|") == 4


def test_the_records_say_the_same_as_the_table() -> None:
    rows = rows_of([RATE], runs(RATE, OURS, 6) + runs(RATE, "UCX tag_bw", 3))
    assert [(r["program"], r["median"], r["class"], r["verbena_is_better_by"]) for r in records(rows)] == [
        (OURS, 6, "near", None),
        ("UCX tag_bw", 3, "near", 2.0),
    ]


def test_sizes_are_named_as_people_write_them() -> None:
    assert [size_name(size) for size in (8, 1000, 1024, 65536, 1 << 20)] == [
        "8 B",
        "1000 B",
        "1 KiB",
        "64 KiB",
        "1 MiB",
    ]
