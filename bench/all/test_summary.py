# SPDX-License-Identifier: Apache-2.0
from summary import COMPARISONS, WIDTH, Comparison, line, summary

CALLS = Comparison("calls", "rpc", "qps", ("RDMA", {"transport": "rdma"}), ("TCP", {"transport": "tcp"}))


def row(transport: str, low: float, middle: float, high: float, validity: str = "valid") -> dict:
    return {"transport": transport, "qps_low": low, "qps": middle, "qps_high": high, "validity": validity}


def test_the_faster_one_comes_first_with_an_interval_that_holds_for_both_ends() -> None:
    rows = [row("rdma", 90, 100, 110), row("tcp", 40, 50, 55)]
    assert line(CALLS, rows).split(maxsplit=1)[1] == "RDMA 2.00 x TCP [1.64, 2.75] sure"
    rows = [row("rdma", 40, 50, 55), row("tcp", 90, 100, 110)]
    assert line(CALLS, rows).split(maxsplit=1)[1] == "TCP 2.00 x RDMA [1.64, 2.75] sure"


def test_intervals_that_overlap_show_no_difference() -> None:
    rows = [row("rdma", 80, 100, 130), row("tcp", 70, 90, 110)]
    assert line(CALLS, rows).endswith("[0.73, 1.86] no difference")


def test_a_row_that_is_not_valid_makes_nothing_sure() -> None:
    for validity in ("suspect", "invalid"):
        rows = [row("rdma", 90, 100, 110), row("tcp", 40, 50, 55, validity)]
        assert line(CALLS, rows).endswith(validity)


def test_rows_that_are_missing_or_have_no_rate_are_not_measured() -> None:
    without = row("tcp", 0, 0, 0) | {"qps_low": None}
    for rows in ([], [row("rdma", 90, 100, 110)], [row("rdma", 90, 100, 110), without]):
        assert line(CALLS, rows).endswith("not measured")


def test_the_summary_has_ten_lines_of_at_most_eighty_columns() -> None:
    columns = {"mode": "UD-seg", "transport": "rdma", "validity": "no difference"}
    tables = {}
    for each in COMPARISONS:
        for _, cell in (each.first, each.second):
            figures = {f"{each.figure}{end}": 123456.789 for end in ("", "_low", "_high")}
            tables.setdefault(each.table, []).append(columns | cell | figures | {"validity": "valid"})
    lines = summary(tables, "build/results/report.html")
    assert len(lines) == 10
    assert all(len(each) <= WIDTH for each in lines), lines
