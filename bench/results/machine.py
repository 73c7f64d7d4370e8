# SPDX-License-Identifier: Apache-2.0
"""Names the class of a machine by its cores, its processor and the distance of two cores."""

from __future__ import annotations

import re


def machine_class(cores: int, cpu: str, rtt_classes: list[str]) -> str:
    """Return a name such as 2-cores-amd-epyc-far, from the class that most rows of a table have."""
    pair = max(sorted(set(rtt_classes)), key=rtt_classes.count, default="unknown")
    words = re.sub(r"\((R|TM)\)|@.*| CPU\b| Processor\b|\d+-Core", " ", cpu, flags=re.IGNORECASE)
    model = "-".join(re.findall(r"[a-z0-9]+", words.lower())[:4]) or "unknown"
    return f"{cores}-cores-{model}-{pair}"
