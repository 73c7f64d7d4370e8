"""Runs rdma-core's own test suite, which was written for real NICs, on our NIC.

Debian ships the suite with its Python bindings. expected.tsv lists the verdict of each case. A case
listed as ok must be ok. A case listed as skip, for hardware or a feature that we do not have, may
also be ok. None may fail. test_shared_pd is not run, because it imports a device by a kernel's
descriptor.
"""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
NIC = BUILD / "libverbena-nic.so"
SUITE = Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # Debian's bindings are for this interpreter
EXPECTED = Path(__file__).with_name("expected.tsv")
MODULES = [
    "addr",
    "atomic",
    "cq",
    "cq_events",
    "cqex",
    "device",
    "flow",
    "fork",
    "mr",
    "odp",
    "parent_domain",
    "pd",
    "qp",
    "qpex",
    "rdmacm",
    "relaxed_ordering",
    "rss_traffic",
    "tag_matching",
]
LIMIT_S = 60

# The suite asks sysfs for the network interface of a device, by its PCI device. Our devices have no
# PCI device; the interface is part of their name. The fixture below replaces these lines of the
# suite.
IN_SYSFS = "os.path.exists('/sys/class/infiniband/{}/device/net/'.format(dev))"
LISTED = "out = subprocess.check_output(['ls',"
IN_NAME = "return dev.removeprefix('vb_')"


def expected() -> dict[str, str]:
    return dict(line.split("\t") for line in EXPECTED.read_text().splitlines())


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
    base = made / "tests" / "base.py"
    source = base.read_text()
    assert source.count(IN_SYSFS) == 1 and source.count(LISTED) == 1, (
        "rdma-core finds interfaces in another way than before; adapt the replacements above"
    )
    base.write_text(source.replace(IN_SYSFS, "dev.startswith('vb_')").replace(LISTED, f"{IN_NAME}\n        {LISTED}"))
    return made


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
def test_cases_of_the_module_have_their_expected_verdicts(tree: Path, module: str) -> None:
    verdicts, trouble = run(tree, "vb_lo", module)
    known = {case: verdict for case, verdict in expected().items() if module_of(case) == module}
    wrong = [
        f"{case}: {why}"
        for case, (verdict, why) in verdicts.items()
        if verdict == "fail" or (verdict == "skip" and known.get(case) == "ok")
    ]
    wrong += [f"{case}: no verdict" for case in known if case not in verdicts]
    assert not wrong and not trouble, "\n".join([*wrong, trouble])


def test_every_case_that_is_expected_is_in_a_module_that_is_run() -> None:
    assert {module_of(case) for case in expected()} == set(MODULES)
