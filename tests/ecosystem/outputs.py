# SPDX-License-Identifier: Apache-2.0
"""Reads what programs print."""

import re

# Terminal colours, which UCX and fio print even into a file.
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def stripped(text: str) -> str:
    return COLOUR.sub("", text)
