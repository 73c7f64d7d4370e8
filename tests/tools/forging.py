"""Changes to the rows of a measured table, as a forger would make them."""

import json
from collections.abc import Callable

from programs import Programs, Ran

Row = dict
Change = Callable[[Row], None]


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
