# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages for newcomers, as they are printed, one page after the other.

Each page runs in one shell, in a folder that looks like the source tree after `make build`. cmake
and ninja are replaced by a check of the words that follow them: the presets and targets must exist.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "start").glob("*.md")), ROOT / "docs" / "labs.md"]
LIMIT_S = 120
NEEDS = ("ibv_devinfo", "ibv_rc_pingpong", "ib_send_bw", "rping", "iptables", "tcpdump", "tshark")
# Commands of the README that other tests run: make bench and make test by tests/newcomer, the
# installation by tests/install.
ELSEWHERE = ("make ", "sudo ")


def blocks(page: Path) -> list[str]:
    """Return the blocks of commands: those without a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for language, block in found if not language]


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with the sources and the build, in which commands may write."""
    for name in ("bench", "docs", "examples", "tests", "report", "cmake", "base", "nic", "lib", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").symlink_to(BUILD)
    words = tmp_path / "words"
    words.mkdir()
    ninja = shutil.which("ninja")
    program(words, "cmake", f'[ "$1" = --preset ] && grep -q "\\"name\\": \\"$2\\"" {ROOT}/CMakePresets.json')
    program(words, "ninja", f'shift 2; for each; do {ninja} -C {BUILD} -t query "$each" >/dev/null || exit 1; done')
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_the_page_work_as_they_are_printed(tree: Path, page: Path) -> None:
    missing = [name for name in NEEDS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    assert missing == [], "make test installs them"
    if page.stem == "labs" and not namespaces():
        pytest.skip("no network namespaces here: unshare is refused")
    commands = [block for block in blocks(page) if not block.startswith(ELSEWHERE)]
    assert commands, page
    # `verbena doctor` ends with 1 if it has found a problem of this machine.
    commands = [
        re.sub(r"^(build/verbena doctor)\b", r"\1 || [ $? -eq 1 ]; : ", each, flags=re.MULTILINE) for each in commands
    ]
    script = "\n".join(["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands])
    environment = os.environ | {
        "PATH": f"{tree / 'words'}:{os.environ['PATH']}",
        "VERBENA_REPORT": str(ROOT / "report"),
        "VERBENA_BUILD": str(BUILD),
    }
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            pytest.fail(f"not done within {LIMIT_S} s\n{shell.communicate()[0]}")
    assert shell.returncode == 0, printed


def namespaces() -> bool:
    way = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    return subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0


def test_each_picture_of_a_page_exists_and_is_small() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8")):
            picture = page.parent / name
            assert picture.is_file(), f"{page}: {name}"
            assert picture.stat().st_size <= 150_000, f"{picture} has {picture.stat().st_size} bytes"


def test_each_link_of_a_page_leads_to_a_file() -> None:
    for page in (ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md", *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in name:
                assert (page.parent / name).exists(), f"{page}: {name}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, which GitHub makes of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.strip().lower()).replace(" ", "-") for each in headings}


def test_each_link_to_a_part_of_a_page_leads_to_a_heading() -> None:
    """The changelog named a part of benchmarking.md that had become another page."""
    dead, found = [], 0
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")):
        for name, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            found += 1
            if anchor not in anchors(page.parent / name if name else page):
                dead.append(f"{page.relative_to(ROOT)}: {name}#{anchor}")
    assert found > 20 and dead == []
