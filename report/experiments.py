# SPDX-License-Identifier: Apache-2.0
"""The experiments that a report knows, by the name that `verbena check` gives to a table."""

from __future__ import annotations

from pathlib import Path

from report import judge
from report.connect.experiment import CONNECT
from report.experiment import Experiment
from report.kv.experiment import KV
from report.rcud.experiment import RCUD
from report.reading import ALL_BYTES_MAX, read_bytes
from report.rpc.experiment import RPC
from report.scale.experiment import SCALE
from report.tables import PUBLISHED, Source, Table, TableError, labels

EXPERIMENTS: tuple[Experiment, ...] = (RCUD, CONNECT, SCALE, RPC, KV)
# A file of such a name would show its rows, or its claims, as the published ones.
PUBLISHED_LABELS = {Path(each.published_table).stem for each in EXPERIMENTS if each.published_table}


def read_sources(paths: list[Path]) -> dict[Experiment, list[Source]]:
    """Read the files of any experiments; a TableError names the file, the place and the fault."""
    read: dict[Experiment, list[Source]] = {experiment: [] for experiment in EXPERIMENTS}
    bytes_read = 0
    taken = PUBLISHED_LABELS - {path.stem for path in paths if path.resolve().parent == PUBLISHED}
    for path, label in zip(paths, labels(paths, taken), strict=True):
        data = read_bytes(path)
        bytes_read += len(data)
        if bytes_read > ALL_BYTES_MAX:
            raise TableError(f"{path}: the files have more than {ALL_BYTES_MAX >> 20} MiB together: name fewer")
        experiment, source = _source_of(judge.judged(path, data), label)
        read[experiment].append(source)
    return {experiment: sources for experiment, sources in read.items() if sources}


def read_source(path: Path, label: str) -> tuple[Experiment, Source]:
    return _source_of(judge.read_table(path), label)


def _source_of(table: Table, label: str) -> tuple[Experiment, Source]:
    experiment = next(each for each in EXPERIMENTS if each.name == table.experiment)
    return experiment, experiment.read(table, label)
