# SPDX-License-Identifier: Apache-2.0
"""Run the litmus tests for many rounds (make litmus), and write what was seen into the page.

Ends with status 1 if a forbidden outcome was seen, or a permitted one was not.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from table import MODELS, PAGE, compile_litmus, rows, run

ROUNDS_A_RUN = 500


def with_counts(text: str, seen: dict[str, Counter[str]], rounds: int) -> str:
    """Replace the last column of the table."""
    lines = []
    for line in text.splitlines():
        found = rows(line)
        if found:
            counts = ", ".join(f"{seen[model][found[0].name]:,}" for model in MODELS)
            line = line[: line.rstrip("|").rindex("|")] + f"| {counts} |"
        lines.append(line)
    page = "\n".join(lines) + "\n"
    begin = page.index("The last column counts")
    end = page.index("\n\n", begin)
    return page[:begin] + counted(rounds) + page[end:]


def counted(rounds: int) -> str:
    return (
        "The last column counts the rounds in which the outcome was seen, in the last `tests/litmus/run.py`:\n"
        f"{rounds:,} rounds a model, and a tenth of them for L33."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each test under each model")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the counts into docs/memory-model.md")
    options = parser.parse_args()
    table = rows(PAGE.read_text(encoding="utf-8"))
    seen: dict[str, Counter[str]] = {model: Counter() for model in MODELS}
    runs = max(1, options.rounds // ROUNDS_A_RUN)
    rounds = min(options.rounds, ROUNDS_A_RUN)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_litmus(Path(folder))
        for seed in range(options.first_seed, options.first_seed + runs):
            for model in MODELS:
                seen[model] += run(program, f"{seed}:{model}", rounds, [])
    wrong = 0
    for row in table:
        counts = [seen[model][row.name] for model in MODELS]
        bad = [model for model in MODELS if row.allowed[model] != (seen[model][row.name] > 0)]
        wrong += len(bad)
        print(f"{row.name:10} {counts}{'  WRONG: ' + ', '.join(bad) if bad else ''}", flush=True)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_counts(text, seen, runs * rounds), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
