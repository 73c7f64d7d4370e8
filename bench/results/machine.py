"""Names the class of a machine by its cores, its processor and the distance of two cores."""

from __future__ import annotations

import re

NEAR_FROM_NS, NEAR_TO_NS = 85, 200  # as bench/far_end/round_trip.h


def core_pair(round_trip_ns: float) -> str:
    return "smt" if round_trip_ns < NEAR_FROM_NS else "near" if round_trip_ns <= NEAR_TO_NS else "far"


def machine_class(cores: int, cpu: str, round_trip_ns: float) -> str:
    """Return a name such as 2-cores-amd-epyc-far."""
    words = re.sub(r"\((R|TM)\)|@.*| CPU\b| Processor\b|\d+-Core", " ", cpu, flags=re.IGNORECASE)
    model = "-".join(re.findall(r"[a-z0-9]+", words.lower())[:4]) or "unknown"
    return f"{cores}-cores-{model}-{core_pair(round_trip_ns)}"
