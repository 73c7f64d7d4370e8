# SPDX-License-Identifier: Apache-2.0
"""The judge of the rows is the program of the build that is tested."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("VERBENA_PROGRAM", str(Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "verbena"))
