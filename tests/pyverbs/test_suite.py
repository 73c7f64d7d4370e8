# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's own test suite, which was written for real NICs, on our NIC.

Debian ships the suite with its Python bindings. All of it runs, as it is. expected.tsv has the
expected verdict of each case and, if the case is skipped, the reason: hardware or a feature that we
do not have. A case listed as ok must be ok; one listed as skip may also be ok. None may fail.
"""

import gzip
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
SUITE = Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # Debian's bindings are for this interpreter
EXPECTED = Path(__file__).with_name("expected.tsv")
MODULES = sorted({path.name.split(".")[0].removeprefix("test_") for path in SUITE.glob("test_*.py*")})
LIMIT_S = 60


class Expected(NamedTuple):
    verdict: str
    reason: str = ""  # why the case is skipped


def expected() -> dict[str, Expected]:
    rows = (line.split("\t") for line in EXPECTED.read_text().splitlines())
    return {case: Expected(*columns) for case, *columns in rows}


def module_of(case: str) -> str:
    return case.split(".")[1].removeprefix("test_")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    made = tmp_path_factory.mktemp("rdma-core")
    shutil.copytree(SUITE, made / "tests")
    for packed in made.glob("tests/*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return made


@pytest.fixture(scope="session")
def device() -> str:
    """The device that a program gets first. The loopback's would not do for test_rdmacm: as in the
    kernel, an address of the loopback belongs to no device.
    """
    listed = subprocess.run(
        ["ibv_devices"], env=os.environ | {"LD_PRELOAD": str(NIC)}, capture_output=True, text=True, check=True
    )
    return next(line.split()[0] for line in listed.stdout.splitlines() if line.strip().startswith("vb_"))


def run(tree: Path, device: str, module: str) -> tuple[dict[str, tuple[str, str]], str]:
    """Return each case's verdict and reason, and an error text unless the run ended with 0."""
    runner = Path(__file__).with_name("run_module.py")
    command = ["timeout", "--kill-after=5", str(LIMIT_S), PYTHON, "-B", runner, tree, device, f"test_{module}"]
    done = subprocess.run(
        command,
        env=os.environ | {"LD_PRELOAD": str(NIC)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = (
        line.split("\t") for line in done.stdout.splitlines() if line.startswith("tests.") and line.count("\t") == 2
    )
    verdicts = {case: (verdict, why) for case, verdict, why in lines}
    return verdicts, "" if done.returncode == 0 else f"status {done.returncode}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("module", MODULES)
def test_cases_of_the_module_have_their_expected_verdicts(tree: Path, device: str, module: str) -> None:
    verdicts, trouble = run(tree, device, module)
    known = {case: row for case, row in expected().items() if module_of(case) == module}
    wrong = [
        f"{case}: {why}"
        for case, (verdict, why) in verdicts.items()
        if verdict == "fail" or (verdict == "skip" and (case not in known or known[case].verdict == "ok"))
    ]
    wrong += [f"{case}: no verdict" for case in known if case not in verdicts]
    assert not wrong and not trouble, "\n".join([*wrong, trouble])


def test_every_module_of_the_suite_is_in_the_table() -> None:
    assert {module_of(case) for case in expected()} == set(MODULES)


def test_every_skip_in_the_table_has_a_reason() -> None:
    for case, row in expected().items():
        assert row.verdict == "ok" or (row.verdict == "skip" and row.reason), case
