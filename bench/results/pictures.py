# SPDX-License-Identifier: Apache-2.0
"""Pictures for the repository: a tenth of the bytes of those that `verbena report` draws."""

from pathlib import Path

from PIL import Image

COLOURS = 64  # enough for a plot, with the steps between two colours at the edges of lines


def shrink(source: Path, target: Path) -> None:
    """Write a picture with half the width and height and a palette."""
    with Image.open(source) as picture:
        picture.convert("RGB").reduce(2).quantize(COLOURS).save(target, optimize=True)
