"""`verbena report`: result tables to plots, judged claims and one self-contained HTML page."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

# `python3 report` runs the folder, so the package's parent must come first in the search path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report.tables import Source, Table, TableError, labels, read_table

# The folders of the experiments, with their titles. Each has the modules rows (KEYS, read,
# published), claims (judge_all), pictures (draw_all) and page (render, and json_more if the JSON
# has more than rows and verdicts). The last one reads, and refuses, a table that no experiment
# recognizes.
EXPERIMENTS = {"scale": "many clients", "rpc": "calls", "kv": "the key-value store", "rcud": "RC against UD"}
EXAMPLES = """examples:
  verbena bench rcud --csv rcud.csv && verbena report rcud.csv -o rcud.html
  verbena report near.csv far.json -o both.html --plots plots --json facts.json
  verbena report bench/published/rc_vs_ud.csv -o published.html
  verbena bench scale --json scale.json && verbena report scale.json -o scale.html
  verbena bench rpc --json rpc.json && verbena report rpc.json -o rpc.html
  verbena bench kv --json kv.json && verbena report kv.json -o kv.html

exit codes: 0 good, 1 failed (a file that cannot be read or written, or is not such a table), 2 usage"""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        tables = [read_table(path) for path in options.files]
        name = _experiment_of(tables)
        rows = _module(name, "rows")
        sources = [rows.read(table, label) for table, label in zip(tables, labels(options.files), strict=True)]
        published = None if any(source.published for source in sources) else rows.published()
        beside = [*sources, *([published] if published else [])]
        judged = {source.label: _module(name, "claims").judge_all(source) for source in beside}
        folder = options.plots or options.output.parent
        # Imported late: matplotlib takes a second to load, and --help and errors do not need it.
        pictures = _module(name, "pictures").draw_all(sources, published, folder)
        page = _module(name, "page")
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page.render(sources, pictures, judged, published), encoding="utf-8")
        more = getattr(page, "json_more", lambda _: {})
        _write_json(
            options.json,
            {
                "sources": [_source_json(source) | more(source) for source in sources],
                "claims": {
                    label: [asdict(judgement) for judgement in judgements] for label, judgements in judged.items()
                },
            },
        )
    except TableError as error:
        print(f"verbena report: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"verbena report: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(sources)} table(s), {len(pictures)} pictures in {folder}", file=sys.stderr)
    return 0


def _module(experiment: str, name: str) -> ModuleType:
    return import_module(f"report.{experiment}.{name}")


def _experiment_of(tables: list[Table]) -> str:
    """Return the experiment of the tables, by the columns that only its tables have."""
    names = []
    for table in tables:
        known = [name for name in EXPERIMENTS if all(key in table.header for key in _module(name, "rows").KEYS)]
        names.append(known[0] if known else list(EXPERIMENTS)[-1])
        if names[-1] != names[0]:
            raise TableError(
                f"{table.path}: a table of {EXPERIMENTS[names[-1]]}, and {tables[0].path} is one of "
                f"{EXPERIMENTS[names[0]]}: "
                "one page has one experiment"
            )
    return names[0]


def _source_json(source: Source) -> dict[str, object]:
    rows = [asdict(row) for row in source.rows]
    return {"label": source.label, "kind": source.kind, "environment": source.environment, "rows": rows}


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
        prog="verbena report",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="CSV or JSON of verbena bench rcud, scale, rpc or kv, or a published table",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE", help="the HTML page to write")
    parser.add_argument(
        "--plots", type=Path, metavar="DIR", help="folder for the PNG and SVG files (default: beside the page)"
    )
    parser.add_argument(
        "--json", metavar="F", help="also write facts, comparisons and verdicts as JSON (- is standard output)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
