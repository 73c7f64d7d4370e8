# SPDX-License-Identifier: Apache-2.0
"""The disk as a power failure may leave it, built from what tests/kv/power_loss.c recorded.

The model is the one that POSIX promises and no more. A write is certain to be on the disk once its
file has been synchronised after it. The name of a new file or folder is certain once the folder
that contains it has been synchronised. Any part of the rest may be there: a write wholly, not at
all, or some of its sectors of 512 bytes.
"""

import random
import struct
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
RECORD = struct.Struct("<qIIQQ")
MADE_FOLDER, MADE_FILE, WROTE, TRUNCATED, SYNCED = range(1, 6)


class Record(NamedTuple):
    time_ns: int
    kind: int
    path: Path
    offset: int
    length: int
    data: bytes


def read_log(path: Path) -> list[Record]:
    """Return the records. The last one may be incomplete, because the server was killed."""
    raw, at, records = path.read_bytes(), 0, []
    while at + RECORD.size <= len(raw):
        time_ns, kind, path_bytes, offset, length = RECORD.unpack_from(raw, at)
        at += RECORD.size
        data_bytes = length if kind == WROTE else 0
        if at + path_bytes + data_bytes > len(raw):
            break
        name, data = raw[at : at + path_bytes], raw[at + path_bytes : at + path_bytes + data_bytes]
        at += path_bytes + data_bytes
        records.append(Record(time_ns, kind, Path(name.decode()), offset, length, data))
    return records


class File:
    def __init__(self) -> None:
        self.content = bytearray()
        self.pending: list[Record] = []

    def apply(self, record: Record, data: bytes, offset: int) -> None:
        if record.kind == TRUNCATED:
            del self.content[record.offset :]
            self.content.extend(bytes(record.offset - len(self.content)))
            return
        self.content.extend(bytes(max(0, offset + len(data) - len(self.content))))
        self.content[offset : offset + len(data)] = data

    def synchronise(self) -> None:
        for record in self.pending:
            self.apply(record, record.data, record.offset)
        self.pending.clear()

    def lose_some(self, luck: random.Random) -> None:
        """Let a random part of what is pending reach the disk."""
        share = luck.choice((0.0, 0.2, 0.5, 0.9))
        for record in self.pending:
            if record.kind == TRUNCATED or luck.random() < 0.5:
                if luck.random() < share:
                    self.apply(record, record.data, record.offset)
                continue
            for start in range(0, len(record.data), SECTOR):
                if luck.random() < share:
                    self.apply(record, record.data[start : start + SECTOR], record.offset + start)
        self.pending.clear()


class Disk:
    """The files below a folder and what is certain of them."""

    def __init__(self, folder: Path, honest_sync: bool = True) -> None:
        self.folder, self.honest_sync = folder, honest_sync
        self.files: dict[Path, File] = {}
        self.folders: set[Path] = set()
        self.uncertain_names: set[Path] = set()

    def add(self, record: Record) -> None:
        path = record.path
        if record.kind in (MADE_FILE, MADE_FOLDER):
            self.uncertain_names.add(path)
        if record.kind == MADE_FOLDER:
            self.folders.add(path)
        elif record.kind == MADE_FILE:
            self.files[path] = File()
        elif record.kind in (WROTE, TRUNCATED):
            self.files.setdefault(path, File()).pending.append(record)
        elif self.honest_sync:
            if path in self.files:
                self.files[path].synchronise()
            self.uncertain_names = {name for name in self.uncertain_names if name.parent != path}

    def fail(self, target: Path, luck: random.Random) -> None:
        """Write to the folder `target` what a power failure now may leave of the folder."""
        lost = {name for name in sorted(self.uncertain_names) if luck.random() < 0.5}
        for path in sorted(self.folders):
            if not lost.intersection([path, *path.parents]):
                (target / path.relative_to(self.folder)).mkdir(parents=True, exist_ok=True)
        for path, file in sorted(self.files.items()):
            file.lose_some(luck)
            if not lost.intersection([path, *path.parents]):
                place = target / path.relative_to(self.folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.content)


def after_power_loss(records: list[Record], folder: Path, target: Path, seed: int, *, honest_sync: bool = True) -> None:
    """Build in `target` the content of `folder` after these records and a power failure."""
    disk = Disk(folder, honest_sync)
    for record in records:
        disk.add(record)
    target.mkdir()
    disk.fail(target, random.Random(seed))
