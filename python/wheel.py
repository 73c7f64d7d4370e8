#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Build the wheel of the distribution `verbena` (`make wheel`).

The wheel has Chart.js of Debian's libjs-chart.js, so that a report needs no Debian package. Two
wheels of one commit are equal: SOURCE_DATE_EPOCH, or else the commit's time, is the time of their
files. No network is used.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHART_JS = Path("/usr/share/javascript/chart.js/chart.min.js")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "wheel.py", "tests")
FILE, FOLDER = 0o644, 0o755


def epoch() -> str:
    """Return SOURCE_DATE_EPOCH, or the time of the commit, or in a tree without git of VERSION."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    command = ["git", "-C", str(HERE), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or str(int((HERE / "VERSION").stat().st_mtime))


def stage(folder: Path) -> None:
    """Copy what is in the wheel, with the files that the links lead to."""
    shutil.copytree(HERE, folder, ignore=LEFT_OUT)
    (folder / "verbena" / "share" / "chart.js").mkdir()
    shutil.copy(CHART_JS, folder / "verbena" / "share" / "chart.js")
    for path in folder.rglob("*"):
        path.chmod(FOLDER if path.is_dir() else FILE)


def build(out: Path) -> int:
    if not CHART_JS.exists():
        print(f"wheel.py: there is no {CHART_JS}: install Debian's package libjs-chart.js", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch) / "verbena")
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps"]
        command += ["--no-build-isolation", "--no-cache-dir", "-w", str(out), str(Path(scratch) / "verbena")]
        environment = os.environ | {"SOURCE_DATE_EPOCH": epoch()}
        return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE.parent / "build-wheel", help="the folder of the wheel")
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("verbena-*.whl"):
        old.unlink()
    status = build(out)
    for made in out.glob("verbena-*.whl"):
        print(made)
    return status


if __name__ == "__main__":
    sys.exit(main())
