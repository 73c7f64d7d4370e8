"""`verbena report`: result tables to plots, judged claims and one self-contained HTML page."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

# Run as a folder (`python3 report`): the package's parent comes before the folder itself.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import tables
from report.claims import Judgement, judge_all
from report.compare import Comparison, compare
from report.facts import facts
from report.scale import claims as scale_claims
from report.scale import rows as scale_rows

EXAMPLES = """examples:
  verbena bench rcud --csv rcud.csv && verbena report rcud.csv -o rcud.html
  verbena report near.csv far.json -o both.html --plots plots --json facts.json
  verbena report bench/published/rc_vs_ud.csv -o published.html
  verbena bench scale --json scale.json && verbena report scale.json -o scale.html

exit codes: 0 good, 1 failed (a file that cannot be read or written, or is not such a table), 2 usage"""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        many = [scale_rows.is_scale(file) for file in options.files]
        if any(many):
            if not all(many):
                raise tables.TableError(
                    f"{options.files[many.index(False)]}: not of many clients as the other files are: one page has one experiment"
                )
            return _report_scale(options)
        sources = tables.read_all(options.files)
        published = None if any(source.published for source in sources) else tables.published()
        judged = {source.label: judge_all(source) for source in [*sources, *([published] if published else [])]}
        from report import page, plots  # late: matplotlib takes a second, and --help and errors need none of it

        folder = options.plots or options.output.parent
        pictures = plots.draw_all(sources, published, folder)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page.render(sources, pictures, judged, published), encoding="utf-8")
        _write_json(options.json, _facts(sources, judged))
    except tables.TableError as error:
        print(f"verbena report: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"verbena report: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(sources)} table(s), {len(pictures)} pictures in {folder}", file=sys.stderr)
    return 0


def _report_scale(options: argparse.Namespace) -> int:
    """The page of the many-clients experiment."""
    stems = [path.stem for path in options.files]
    sources = [scale_rows.read(path, path.stem if stems.count(path.stem) == 1 else str(path)) for path in options.files]
    published = scale_rows.published()
    judged = {source.label: scale_claims.judge_all(source) for source in sources}
    from report.scale import page, plots  # late, as above

    folder = options.plots or options.output.parent
    pictures = plots.draw_all(sources, published, folder)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page.render(sources, pictures, judged, published), encoding="utf-8")
    _write_json(
        options.json,
        {
            "sources": [{"label": s.label, "environment": s.environment, "rows": [asdict(row) for row in s.rows]} for s in sources],
            "claims": {label: [asdict(judgement) for judgement in judgements] for label, judgements in judged.items()},
        },
    )
    print(f"{options.output}: {len(sources)} table(s), {len(pictures)} pictures in {folder}", file=sys.stderr)
    return 0


def _write_json(path: str | None, document: dict[str, object]) -> None:
    if not path:
        return
    text = json.dumps(document, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="verbena report", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="CSV or JSON of verbena bench rcud or scale, or a published table"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE", help="the HTML page to write")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for the PNG and SVG files (default: beside the page)")
    parser.add_argument("--json", metavar="F", help="also write facts, comparisons and verdicts as JSON (- is standard output)")
    return parser.parse_args(arguments)


def _facts(sources: list[tables.Source], judged: dict[str, list[Judgement]]) -> dict[str, object]:
    return {
        "sources": [
            {
                "label": source.label,
                "kind": source.kind,
                "environment": source.environment,
                "facts": facts(source),
                "cells": [
                    {"msg": cell.msg, "window": cell.window, "window_mode": cell.window_mode, "winner": cell.winner}
                    | ({"obstacle": cell.obstacle} if cell.obstacle else {"ud_over_rc": _ratio(cell)})
                    for cell in compare(source)
                ],
                "rows": [asdict(row) for row in source.rows],
            }
            for source in sources
        ],
        "claims": {label: [asdict(judgement) for judgement in judgements] for label, judgements in judged.items()},
    }


def _ratio(cell: Comparison) -> list[float | None]:
    """Low, middle, high; JSON knows no infinity."""
    return [value if math.isfinite(value) else None for value in (cell.ratio_low, cell.ratio, cell.ratio_high)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
