"""Changes figures in a result table, as a forger would, and asks `verbena check` about them."""

import json
from collections.abc import Callable

from programs import Programs, Ran

Row = dict
Change = Callable[[Row], object]


def check(programs: Programs, document: dict) -> Ran:
    path = programs.folder / "forged.json"
    path.write_text(json.dumps(document))
    return programs.run("verbena", "check", "--strict", path)


def scaled(factor: float, *names: str) -> Change:
    def change(row: Row) -> None:
        for name in names:
            row[name] *= factor

    return change


def with_values(**values: object) -> Change:
    return lambda row: row.update(values)


def together(*changes: Change) -> Change:
    def change(row: Row) -> None:
        for each in changes:
            each(row)

    return change


def of_repetitions(change: Change) -> Change:
    def change_all(row: Row) -> None:
        for repetition in row["repetitions"]:
            change(repetition)

    return change_all


def of_first(change: Change) -> Change:
    return lambda row: change(row["repetitions"][0])


def histogram(change: Change) -> Change:
    return of_first(lambda one: change(one["latency_ns"]))
