#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Build the wheel of the distribution `verbena` (`make wheel`).

The wheel has Chart.js of Debian's libjs-chart.js, so that a report needs no Debian package. Two
wheels of one commit are equal: SOURCE_DATE_EPOCH, or else the commit's time, is the time of their
files. No network is used.

With --libraries the wheel has the client library of the key-value store and the NIC from a build,
and is for the platform of that build. The other libraries that these need are the system's.

A wheel in the folder that is for the same platform is replaced when the new one has been built;
other wheels stay. Exit codes: 0 success, 1 failure, 2 wrong usage.
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


def mistake_in(libraries: Path) -> str:
    """Say why no libraries can be taken from this folder; an empty text if they can."""
    for name in ("cmake_install.cmake", *LIBRARIES.values()):
        if not (libraries / name).exists():
            return f"--libraries {libraries} is not the folder of a build: it has no {name} (make programs)"
    return ""


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


def build(out: Path, libraries: Path | None) -> Path:
    """Build the wheel, and put it into the folder in place of an earlier one for its platform."""
    if not CHART_JS.exists():
        raise FileNotFoundError(f"there is no {CHART_JS}: install Debian's package libjs-chart.js")
    out.mkdir(parents=True, exist_ok=True)
    # Within the folder, so that the wheel is renamed and never half written.
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        stage(Path(scratch) / "verbena", libraries)
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps"]
        command += ["--no-build-isolation", "--no-cache-dir", "-w", scratch, str(Path(scratch) / "verbena")]
        subprocess.run(command, env=os.environ | {"SOURCE_DATE_EPOCH": epoch()}, check=True)
        (made,) = Path(scratch).glob("verbena-*.whl")
        platform = made.stem.rpartition("-")[2]
        for old in out.glob(f"verbena-*-{platform}.whl"):
            old.unlink()
        return made.rename(out / made.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE.parent / "build-wheel", help="the folder of the wheel")
    parser.add_argument("--libraries", type=Path, metavar="BUILD", help="add the shared libraries of this build")
    options = parser.parse_args()
    if options.libraries is not None and (mistake := mistake_in(options.libraries)):
        print(f"wheel.py: {mistake}", file=sys.stderr)
        return 2
    try:
        print(build(options.out.resolve(), options.libraries))
    except subprocess.CalledProcessError as error:
        print(f"wheel.py: {error.cmd[0]} has ended with {error.returncode}: no wheel was built", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"wheel.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
