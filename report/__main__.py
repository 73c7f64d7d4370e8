# SPDX-License-Identifier: Apache-2.0
"""`verbena report`: result tables of any experiments to one self-contained page and pictures."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import sys
import traceback
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TextIO

# `python3 report` runs the folder, so the package's parent must come first in the search path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import baseline
from report.compare import Comparison
from report.experiment import Experiment
from report.experiments import read_sources
from report.page import CHARTS_MAX, Part, render
from report.reading import ALL_BYTES_MAX, BYTES_MAX, FILES_MAX, ROWS_MAX
from report.spectrum import pictured, spectra
from report.tables import Source, TableError, printable

GOOD, REGRESSION, UNUSABLE = 0, 1, 2
EXAMPLES = f"""examples:
  verbena bench rcud --json rcud.json && verbena report rcud.json -o rcud.html
  verbena report rcud.json scale.json rpc.json kv.json connect.json -o all.html --plots plots
  verbena report near.csv far.json -o both.html --json facts.json
  verbena report bench/published/rc_vs_ud.csv -o published.html
  verbena report new.json -o new.html --baseline old.json --tolerance 5   (in CI: exit code 1 for a regression)

limits: {FILES_MAX} files of {BYTES_MAX >> 20} MiB and {ROWS_MAX} rows each, {ALL_BYTES_MAX >> 20} MiB together;
{CHARTS_MAX} plots of each experiment

exit codes:
  0  the page was written, and no figure is worse than in the baseline, if there is one
  1  the page was written, and a figure is worse than in the baseline, beyond noise and tolerance
  2  usage, or a file that cannot be read, judged, compared or written; standard error says which and what to do"""


def main(arguments: list[str], command: str = "verbena report") -> int:
    """Write the page. `command` is the name by which the user has called this program."""
    # A reader that has seen enough ends the program: `verbena report --help | head`.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options = None
    try:
        options = _options(arguments, command)
        status = _report(options)
        if sys.stdout:  # None if the user has closed it
            sys.stdout.flush()
        return status
    except TableError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename or 'standard output'}: {error.strerror}"
        if sys.stdout:
            _forget(sys.stdout)
    except Exception as error:
        # Uncaught, it would give the exit status of a regression.
        if options and options.traceback:
            traceback.print_exc()
        said = (
            f"a fault of this program, so report it with the files: {type(error).__name__}: {error} "
            "(--traceback shows where)"
        )
    _say(f"{command}: {said.replace(chr(10), ' ')}")
    return UNUSABLE


def _report(options: argparse.Namespace) -> int:
    _examine_outputs(options)
    read = read_sources(options.files)
    compared = None
    if options.baseline:
        compared = baseline.compare(read, options.baseline, options.tolerance / 100)
    parts = [part_of(experiment, sources) for experiment, sources in read.items()]
    pictures = _draw(parts, options.plots or options.output.parent)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    _write(options.output, render(parts, compared))
    _write_json(options.json, _document(parts, compared))
    _say(f"{options.output}: {len(options.files)} table(s), {pictures} pictures")
    if compared is None:
        return GOOD
    _print_changes(compared, sys.stderr if options.json == "-" else sys.stdout)
    return REGRESSION if any(change.verdict == baseline.REGRESSION for change in compared.changes) else GOOD


def _say(sentence: str) -> None:
    """Print to standard error. That it cannot be written does not change the exit status."""
    if not sys.stderr:  # the user has closed it
        return
    try:
        print(printable(sentence), file=sys.stderr, flush=True)
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Drop text that a stream has refused, and that the interpreter would write again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def part_of(experiment: Experiment, sources: list[Source]) -> Part:
    """Judge, compare and chart the tables of one experiment."""
    published = None if any(source.published for source in sources) else experiment.published()
    beside = [*sources, *([published] if published else [])]
    charts = list(islice(experiment.charts(sources, published), CHARTS_MAX + 1))
    return Part(
        experiment,
        sources,
        published,
        {source.label: experiment.judge_claims(source) for source in beside},
        charts[:CHARTS_MAX],
        len(charts) > CHARTS_MAX,
        spectra(experiment, sources),
    )


def _draw(parts: list[Part], folder: Path) -> int:
    """Draw all charts and some spectra as PNG and SVG, and return their number."""
    # Imported late: matplotlib takes a second to load, and --help and errors do not need it.
    from report.pictures import draw

    charts = [chart for part in parts for chart in [*part.charts, *pictured(part.spectra, part.experiment)]]
    return len([draw(chart, folder) for chart in charts])


def _document(parts: list[Part], compared: baseline.Compared | None) -> dict[str, object]:
    document: dict[str, object] = {
        "sources": [_source_json(part.experiment, source) for part in parts for source in part.sources],
        "verdicts": [
            _verdict_json(part.experiment, source, comparison)
            for part in parts
            for source in part.beside
            for comparison in part.experiment.compare(source)
        ],
        "claims": {
            label: [asdict(judgement) for judgement in judgements]
            for part in parts
            for label, judgements in part.judged.items()
        },
    }
    if compared is not None:
        document["changes"] = [asdict(change) for change in compared.changes]
        document["baseline"] = {
            "sources": [
                {"label": source.label, "kind": source.kind, "environment": source.environment}
                for source in compared.baseline
            ],
            "machines": compared.machines,
        }
    return document


def _source_json(experiment: Experiment, source: Source) -> dict[str, object]:
    rows = [
        {"words": row.words, "values": row.values, "validity": row.validity, "reason": row.reason}
        for row in source.rows
    ]
    return {
        "label": source.label,
        "experiment": experiment.name,
        "kind": source.kind,
        "environment": source.environment,
        "facts": experiment.facts(source),
        "goals": [asdict(judgement) for judgement in experiment.goals(source)],
        "rows": rows,
    }


def _verdict_json(experiment: Experiment, source: Source, comparison: Comparison) -> dict[str, object]:
    question = comparison.question
    found: dict[str, object] = {
        "experiment": experiment.name,
        "source": source.label,
        "question": question.title,
        "cell": comparison.where,
        "winner": comparison.winner,
        "validity": comparison.validity,
    }
    if comparison.obstacle:
        return found | {"obstacle": comparison.obstacle}
    # JSON has no infinity.
    bounds = [value if math.isfinite(value) else None for value in comparison.bounds]
    return found | {"ratio_of": [question.second, question.first], "ratio": bounds}


def _write_json(path: str | None, document: dict[str, object]) -> None:
    if not path:
        return
    text = json.dumps(document, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        _write(Path(path), text)


def _write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all; a device or a pipe is written as it is."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        target = path.resolve()
        part = target.with_name(f".verbena-report-{os.getpid()}")
        try:
            part.write_text(text, encoding="utf-8")
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from None


def _examine_outputs(options: argparse.Namespace) -> None:
    """Refuse to write over a table that is read, or two files of one name."""
    outputs = [options.output, *([Path(options.json)] if options.json not in (None, "-") else [])]
    for output in outputs:
        if any(_is_same_file(output, read) for read in [*options.files, *(options.baseline or [])]):
            raise TableError(f"{output}: a table that is read would be overwritten: name another file to write")
    if len(outputs) == 2 and _is_same_file(*outputs):
        raise TableError(f"{outputs[0]}: the page and the JSON would be one file: name two")


def _is_same_file(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return one.resolve() == other.resolve()


def _print_changes(compared: baseline.Compared, file: object) -> None:
    for change in compared.changes:
        if change.verdict in (baseline.REGRESSION, baseline.IMPROVEMENT):
            print(printable(change.line()), file=file)
    for sentence in compared.machines:
        print(printable(f"another machine: {sentence}"), file=file)
    print(compared.summary, file=file)


def _options(arguments: list[str], command: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=command,
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="CSV or JSON of verbena bench (rcud, connect, scale, rpc, kv) or performance_test, or a published table",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE", help="the HTML page to write")
    parser.add_argument(
        "--plots", type=Path, metavar="DIR", help="folder for the PNG and SVG files (default: beside the page)"
    )
    parser.add_argument(
        "--json", metavar="F", help="also write rows, verdicts, claims and changes as JSON (- is standard output)"
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        action="append",
        metavar="OLD",
        help="a file of an earlier run: say what changed beyond noise, and exit with 1 for a regression (repeatable)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="a figure may be worse by this much without being a regression (default: 0)",
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show the Python traceback of an error that is a fault of this program"
    )
    options = parser.parse_args(arguments)
    if (count := len(options.files) + len(options.baseline or [])) > FILES_MAX:
        parser.error(f"{count} files: at most {FILES_MAX}")
    if not 0 <= options.tolerance < 100:
        parser.error("--tolerance: a percentage from 0 to below 100")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
