#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Build the wheel of the distribution `verbena` (`make wheel`).

The wheel has Chart.js of Debian's libjs-chart.js, so that a report needs no Debian package. Two
wheels of one commit are equal: SOURCE_DATE_EPOCH, or else the commit's time, is the time of their
files. No network is used.

With --libraries the wheel has the client library of the key-value store and the NIC from a build,
and is for the platform of that build. The other libraries that these need are the system's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHART_JS = Path("/usr/share/javascript/chart.js/chart.min.js")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "wheel.py", "tests")
LIBRARIES = {"nic": "libverbena-nic.so", "kv": "libverbena-kv.so.0"}  # by component
FILE, FOLDER = 0o644, 0o755


def epoch() -> str:
    """Return SOURCE_DATE_EPOCH, or the time of the commit, or in a tree without git of VERSION."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    command = ["git", "-C", str(HERE), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or str(int((HERE / "VERSION").stat().st_mtime))


def add_libraries(folder: Path, libraries: Path) -> None:
    """Add what `cmake --install` installs; the loader finds one library beside the other."""
    prefix = folder.parent / "prefix"
    for component, name in LIBRARIES.items():
        command = ["cmake", "--install", str(libraries), "--prefix", str(prefix), "--strip", "--component", component]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(next(prefix.rglob(name)), folder / "verbena_kv" / name)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    (folder / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {platform}\n")


def stage(folder: Path, libraries: Path | None) -> None:
    """Copy what is in the wheel, with the files that the links lead to."""
    shutil.copytree(HERE, folder, ignore=LEFT_OUT)
    (folder / "verbena" / "share" / "chart.js").mkdir()
    shutil.copy(CHART_JS, folder / "verbena" / "share" / "chart.js")
    if libraries is not None:
        add_libraries(folder, libraries)
    for path in folder.rglob("*"):
        path.chmod(FOLDER if path.is_dir() else FILE)


def build(out: Path, libraries: Path | None) -> int:
    if not CHART_JS.exists():
        print(f"wheel.py: there is no {CHART_JS}: install Debian's package libjs-chart.js", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch) / "verbena", libraries)
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps"]
        command += ["--no-build-isolation", "--no-cache-dir", "-w", str(out), str(Path(scratch) / "verbena")]
        environment = os.environ | {"SOURCE_DATE_EPOCH": epoch()}
        return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE.parent / "build-wheel", help="the folder of the wheel")
    parser.add_argument("--libraries", type=Path, metavar="BUILD", help="add the shared libraries of this build")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("verbena-*.whl"):
        old.unlink()
    status = build(out, options.libraries)
    for made in out.glob("verbena-*.whl"):
        print(made)
    return status


if __name__ == "__main__":
    sys.exit(main())
