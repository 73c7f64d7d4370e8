from table import OURS, Cell, Run, markdown, records, rows_of

RATE, LATENCY = Cell("rate", 8, 4), Cell("latency", 8, 0)


def runs(cell: Cell, program: str, *values: float, near: str = "near") -> list[Run]:
    return [Run(cell, program, value, near, 110.0, 104.0) for value in values]


def test_a_ratio_is_one_of_medians() -> None:
    (row,) = rows_of(runs(RATE, OURS, 1, 9, 10) + runs(RATE, "tag_bw", 3, 3, 100))
    assert row.ratio("tag_bw") == 3
    assert row.ratio("am_bw") is None


def test_a_shorter_latency_is_a_ratio_above_one() -> None:
    (row,) = rows_of(runs(LATENCY, OURS, 0.1) + runs(LATENCY, "tag_lat", 0.2))
    assert row.ratio("tag_lat") == 2


def test_runs_of_different_classes_are_not_compared() -> None:
    rows = rows_of(runs(RATE, OURS, 10) + runs(RATE, "tag_bw", 2, near="far"))
    assert {row.near for row in rows} == {"near", "far"}
    assert all(row.ratio("tag_bw") is None for row in rows)


def test_runs_during_which_the_class_changed_are_left_out() -> None:
    assert rows_of(runs(RATE, OURS, 10, near="mixed")) == []


def test_the_table_and_the_records_say_the_same() -> None:
    rows = rows_of(runs(RATE, OURS, 6) + runs(RATE, "tag_bw", 3))
    assert (
        "|    8 |      4 |  near |           110 |    1 |       6 |          3 |        0.0447 |        2 |       - |"
        in markdown(rows)
    )
    assert [(r["program"], r["median"], r["verbena_is_better_by"]) for r in records(rows)] == [
        (OURS, 6, 1.0),
        ("tag_bw", 3, 2.0),
    ]
