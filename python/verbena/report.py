# SPDX-License-Identifier: Apache-2.0
"""The command verbena-report: `verbena report`, run by the Python that has this package."""

import signal
import sys
from importlib.util import find_spec
from pathlib import Path

SHARE = Path(__file__).resolve().parent / "share"
NEEDED = ("jinja2", "matplotlib")
USAGE = 2


def main() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in `verbena report`
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"verbena-report: needs {' and '.join(missing)}: pip install 'verbena[report]'", file=sys.stderr)
        return USAGE
    # The package `report` has the name and the place that it has in the source tree.
    sys.path.insert(0, str(SHARE))
    from report.__main__ import main as report

    return report(sys.argv[1:], "verbena-report")
