"""Makes rows of runs: medians of each program, and ratios within a row.

There is a row for each cell and each class of the core-to-core round trip: runs made while the two
cores were near and runs made while they were far are never in one row.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

OURS = "verbena"
GIB = 2**30


@dataclass(frozen=True)
class Cell:
    """One thing that is measured with all programs."""

    question: str  # rate, latency, write
    size: int
    window: int  # messages in flight; 0: a ping-pong

    @property
    def unit(self) -> str:
        return "us" if self.question == "latency" else "Mops"


@dataclass(frozen=True)
class Run:
    """One run of one program."""

    cell: Cell
    program: str
    value: float  # in the unit of the cell
    near: str  # class of the round trip: near, far, smt; mixed if it changed during the repetition
    rtt_before_ns: float
    rtt_after_ns: float


@dataclass(frozen=True)
class Row:
    """The medians of all programs for one cell, measured in one class."""

    cell: Cell
    near: str
    rtt_ns: float
    values: dict[str, float]  # program: median
    runs: dict[str, int]  # program: number of runs

    def ratio(self, program: str) -> float | None:
        """Return by which factor ours is better: ours / theirs for rates, else theirs / ours."""
        if not (self.values.get(OURS) and self.values.get(program)):
            return None
        ratio = self.values[OURS] / self.values[program]
        return 1 / ratio if self.cell.unit == "us" else ratio


def rows_of(runs: Iterable[Run]) -> list[Row]:
    """Group runs to rows; runs of the class `mixed` are left out."""
    groups: dict[tuple[Cell, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.near != "mixed":
            groups[run.cell, run.near].append(run)
    rows = []
    for (cell, near), members in groups.items():
        by_program: dict[str, list[float]] = defaultdict(list)
        for run in members:
            by_program[run.program].append(run.value)
        values = {program: median(found) for program, found in by_program.items()}
        counts = {program: len(found) for program, found in by_program.items()}
        rows.append(
            Row(cell, near, median(max(run.rtt_before_ns, run.rtt_after_ns) for run in members), values, counts)
        )
    questions = ["rate", "latency", "write"]
    return sorted(rows, key=lambda row: (questions.index(row.cell.question), row.cell.window, row.cell.size, row.near))


# question: title, columns (program, heading), and the programs that a ratio is given against.
SECTIONS = {
    "rate": (
        "RC SEND, million messages a second",
        [
            (OURS, "verbena"),
            ("ib_send_bw", "verbena, ib_send_bw"),
            ("tag_bw", "UCX tag_bw"),
            ("am_bw", "UCX uct am_bw"),
        ],
        ["tag_bw", "am_bw"],
    ),
    "latency": (
        "Latency one way, microseconds, median",
        [(OURS, "verbena, ib_send_lat"), ("tag_lat", "UCX tag_lat")],
        ["tag_lat"],
    ),
    "write": (
        "RDMA WRITE, million messages a second",
        [
            (OURS, "verbena"),
            ("ib_write_bw", "verbena, ib_write_bw"),
            ("tag_bw", "UCX tag_bw"),
            ("put_bw", "UCX ucp_put_bw"),
        ],
        ["tag_bw"],
    ),
}


def number(value: float | None) -> str:
    """Format a number with three significant digits, or more above 1000."""
    if value is None:
        return "-"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def markdown(rows: list[Row]) -> str:
    """Return a table for each question."""
    out = []
    for question, (title, columns, rivals) in SECTIONS.items():
        mine = [row for row in rows if row.cell.question == question]
        if not mine:
            continue
        shown = [(program, heading) for program, heading in columns if any(program in row.values for row in mine)]
        headings = [
            "size",
            *(["window"] if mine[0].cell.window else []),
            "cores",
            "round trip ns",
            "runs",
            *(heading for _, heading in shown),
        ]
        if mine[0].cell.unit == "Mops":
            headings.append("verbena GiB/s")
        headings += [f"x {rival}" for rival in rivals]
        lines = []
        for row in mine:
            line = [
                str(row.cell.size),
                *([str(row.cell.window)] if row.cell.window else []),
                row.near,
                f"{row.rtt_ns:.0f}",
                str(min(row.runs.values())),
            ]
            line += [number(row.values.get(program)) for program, _ in shown]
            if row.cell.unit == "Mops":
                line.append(number(row.values[OURS] * 1e6 * row.cell.size / GIB if OURS in row.values else None))
            line += [number(row.ratio(rival)) for rival in rivals]
            lines.append(line)
        out += [f"### {title}", "", *aligned([headings, *lines]), ""]
    return "\n".join(out)


def aligned(lines: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table with aligned columns; the first line is the heading."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return [text[0], rule, *text[1:]]


def records(rows: list[Row]) -> list[dict[str, object]]:
    """Return a record for each row and program, for CSV and JSON."""
    return [
        {
            "question": row.cell.question,
            "size": row.cell.size,
            "window": row.cell.window,
            "class": row.near,
            "rtt_ns": round(row.rtt_ns, 1),
            "program": program,
            "unit": row.cell.unit,
            "median": value,
            "runs": row.runs[program],
            "verbena_is_better_by": row.ratio(program),
        }
        for row in rows
        for program, value in row.values.items()
    ]
