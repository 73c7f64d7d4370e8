# SPDX-License-Identifier: Apache-2.0
"""The processors' time that the host of a virtual machine took for others."""

from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
# proc(5): user nice system idle iowait irq softirq steal. The guest times that follow are in the
# first two.
FIELDS = 8


@dataclass(frozen=True)
class ProcessorTimes:
    """The time of all processors since the start of the machine, in ticks."""

    all: int
    stolen: int

    @classmethod
    def now(cls, stat: Path = STAT) -> "ProcessorTimes":
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1 : 1 + FIELDS]]
        return cls(sum(ticks), ticks[-1])

    def stolen_until(self, later: "ProcessorTimes") -> float:
        """Return the part (0 to 1) of all time from here until `later` that the host took."""
        return (later.stolen - self.stolen) / max(later.all - self.all, 1)
