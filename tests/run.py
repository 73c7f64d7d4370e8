# SPDX-License-Identifier: Apache-2.0
"""Run every test of the project: GoogleTest through ctest, then pytest.

Prints little if all tests pass. The last line is `N passed, N failed, N skipped`, the sum of both
runners. A skipped test makes the run fail unless tests/expected_skips.txt expects it, so that no
test stops running without notice.
"""

import argparse
import fnmatch
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EXPECTED_SKIPS = ROOT / "tests" / "expected_skips.txt"


class Outcome(NamedTuple):
    name: str
    verdict: str  # passed, failed, skipped
    reason: str = ""


def skip_reason(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """Return why a test was skipped.

    pytest reports the reason as an attribute. ctest reports only the program's output, in which
    GoogleTest prints the reason after a line `file:line: Skipped`.
    """
    printed = (case.findtext("system-out") or "").splitlines()
    for number, line in enumerate(printed[:-1]):
        if line.endswith(": Skipped"):
            return printed[number + 1].strip()
    return skipped.get("message") or ""


def outcomes(junit: Path) -> list[Outcome]:
    """Read the report of a runner."""
    found = []
    for case in ElementTree.parse(junit).iter("testcase"):
        class_name, name = case.get("classname", ""), case.get("name", "")
        name = name if name == class_name else f"{class_name}::{name}"  # ctest repeats it
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            found.append(Outcome(name, "failed"))
        elif skipped is not None:
            found.append(Outcome(name, "skipped", skip_reason(case, skipped)))
        elif case.get("status", "run") != "run":
            # ctest: the program is missing, or the test is disabled.
            found.append(Outcome(name, "failed"))
        else:
            found.append(Outcome(name, "passed"))
    return found


def expected_skips(text: str) -> list[str]:
    """Return the patterns in the text of expected_skips.txt."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def is_expected(skip: Outcome, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(f"{skip.name}: {skip.reason}", pattern) for pattern in patterns)


def run_ctest(build: Path) -> tuple[int, list[Outcome]]:
    junit = build / "ctest.xml"
    junit.unlink(missing_ok=True)
    command = [
        "ctest",
        "--test-dir",
        str(build),
        "--output-on-failure",
        "--output-junit",
        str(junit),
        "-j",
        str(os.cpu_count() or 1),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        lines = [line for line in lines if not line.rstrip().endswith(" sec") or "Passed" not in line]
    else:
        lines = [line for line in lines if "tests passed" in line or "Total Test time" in line or "No tests" in line]
    print("\n".join(lines), flush=True)
    return done.returncode, outcomes(junit) if junit.exists() else []


def pytest_runs() -> list[list[str]]:
    """One run for each folder of tests, so that each may have its own conftest.py and helper
    modules.
    """
    folders = sorted({test.parent for test in (ROOT / "tests").glob("*/test_*.py")})
    return [["tests/test_run.py"], ["report"], ["bench"], *([str(folder.relative_to(ROOT))] for folder in folders)]


def run_pytest(build: Path) -> tuple[int, list[Outcome]]:
    status, found = 0, []
    environment = os.environ | {"VERBENA_BUILD": str(build), "PYTHONDONTWRITEBYTECODE": "1"}
    for number, paths in enumerate(pytest_runs()):
        junit = build / f"pytest-{number}.xml"
        junit.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "--tb=short", "--no-header", "-q", f"--junitxml={junit}", *paths]
        print(f"pytest {' '.join(paths)}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        status = status or done.returncode
        found += outcomes(junit) if junit.exists() else []
    return status, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default: build)")
    build = parser.parse_args().build.resolve()

    ctest_status, ctest_outcomes = run_ctest(build)
    pytest_status, pytest_outcomes = run_pytest(build)
    every = ctest_outcomes + pytest_outcomes
    count = {
        verdict: sum(outcome.verdict == verdict for outcome in every) for verdict in ("passed", "failed", "skipped")
    }

    patterns = expected_skips(EXPECTED_SKIPS.read_text())
    unexpected = 0
    for skip in (outcome for outcome in every if outcome.verdict == "skipped"):
        expected = is_expected(skip, patterns)
        unexpected += not expected
        verdict = "skipped" if expected else "skipped, but not listed in tests/expected_skips.txt"
        print(f"{verdict}: {skip.name}: {skip.reason}")

    silent = [name for name, found in (("ctest", ctest_outcomes), ("pytest", pytest_outcomes)) if not found]
    if silent:
        print(f"{' and '.join(silent)} ran no test; the output above says why")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return int(bool(ctest_status or pytest_status or count["failed"] or unexpected or silent))


if __name__ == "__main__":
    sys.exit(main())
