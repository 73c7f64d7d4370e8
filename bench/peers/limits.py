# SPDX-License-Identifier: Apache-2.0
"""The cells that measure the machine itself."""

from collections.abc import Iterator

from cells import GIB, NS, Cell, Contestant, Sample, size_name
from programs import Machine

COPY_SIZES = [8 << 10, 64 << 20]  # in the first-level cache; in memory


def limit_cells(machine: Machine) -> Iterator[Cell]:
    """The round trip of a cache line, and memcpy. UDP with GSO is among the cells of the wire."""
    yield Cell(
        "limits",
        "cache line, there and back",
        (NS,),
        (Contestant("machine", lambda: Sample({"ns": machine.line()[0]})),),
    )
    for size in COPY_SIZES:
        yield Cell(
            "limits", f"memcpy {size_name(size)}", (GIB,), (Contestant("machine", lambda s=size: machine.copy(s)),)
        )
