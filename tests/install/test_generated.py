# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion, which are made from the help texts of the programs."""

import gzip
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, run

PROGRAMS = ("verbena", "kv_server", "kv_client")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    generator = ROOT / "deploy" / "packages" / "generate.py"
    programs = [BUILD / name for name in PROGRAMS]
    environment = os.environ | {"VERBENA_REPORT": str(ROOT / "report")}
    run("/usr/bin/python3", "-B", generator, "--version", "0.1.0", "--out", folder, *programs, env=environment)
    return folder


def completed(pages: Path, line: str) -> list[str]:
    """Return the words that bash offers at the end of a line."""
    words = line.split(" ")
    script = (
        f". {pages / 'bash' / words[0]}\n"
        f"COMP_WORDS=({' '.join(word or repr('') for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        f'_{words[0]}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    return run("bash", "-c", script).split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("verbena de", ["devices"]),
        ("verbena bench ", ["rcud", "connect", "scale", "rpc", "kv"]),
        ("verbena run --l", ["--log"]),
        ("verbena run --log ", ["error", "warn", "info", "debug"]),
        ("verbena bench rcud --conn", ["--connect"]),
        ("kv_server --mem", ["--memory"]),
        ("kv_server --memory ", []),
        ("verbena run --profile e8", ["e810"]),
        ("verbena run -- ls --", []),
        ("verbena run --log info -- ls --l", []),
    ],
)
def test_bash_offers_the_words_of_the_help_text(pages: Path, line: str, offered: list[str]) -> None:
    assert completed(pages, line) == offered


def test_bash_offers_programs_after_verbena_run(pages: Path) -> None:
    assert "bash" in completed(pages, "verbena run bas")


def test_each_subcommand_has_a_page_with_its_options(pages: Path) -> None:
    names = {path.name for path in (pages / "man").iterdir()}
    assert {"verbena.1.gz", "verbena-run.1.gz", "verbena-bench-kv.1.gz", "verbena-report.1.gz"} <= names
    page = gzip.decompress((pages / "man" / "verbena-run.1.gz").read_bytes()).decode()
    assert "\\fB\\-\\-log\\fR \\fI{error,warn,info,debug}\\fR" in page and ".SH EXAMPLES" in page
    assert ".B verbena run\n[OPTIONS] [\\-\\-] PROGRAM [ARGUMENTS]\n" in page


def test_the_page_of_a_program_has_each_of_its_options(pages: Path) -> None:
    page = gzip.decompress((pages / "man" / "kv_server.1.gz").read_bytes()).decode()
    options = re.findall(r"^  (?:-h,)?(--[a-z-]+)", run(BUILD / "kv_server", "--help"), re.MULTILINE)
    assert len(options) > 15
    assert [option for option in options if option.replace("-", "\\-") + "\\fR" not in page] == []


@pytest.mark.parametrize(("shell", "name"), [("zsh", "_{}"), ("fish", "{}.fish")])
def test_the_other_shells_can_read_their_completion(pages: Path, shell: str, name: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    for program in PROGRAMS:
        run(shell, "-n", pages / shell / name.format(program))


def page_of(pages: Path, name: str) -> str:
    return gzip.decompress((pages / "man" / f"{name}.1.gz").read_bytes()).decode()


def test_no_option_lacks_its_description(pages: Path) -> None:
    """An option with a long head, as --adversary, has one blank before its description."""
    for page in (pages / "man").iterdir():
        assert "No description." not in page_of(pages, page.name.removesuffix(".1.gz")), page
    assert "\\fB\\-\\-adversary\\fR \\fI[=SEED][:MODEL]\\fR\nBehave as badly" in page_of(pages, "verbena-run")
    for path in (pages / "zsh" / "_verbena", pages / "fish" / "verbena.fish"):
        assert "Behave as badly" in path.read_text(), path


def test_names_of_pages_keep_abbreviations_and_have_no_markup(pages: Path) -> None:
    names = {
        page: page_of(pages, page).partition(".SH NAME\n")[2].partition("\n")[0]
        for page in ("verbena", "verbena-bench-rcud", "verbena-report", "kv_server")
    }
    assert names["verbena"].startswith("verbena \\- RDMA on any Linux machine"), names
    assert "\\- RC against UD" in names["verbena-bench-rcud"], names
    assert "\\(ga" not in names["verbena-report"], names
    assert names["kv_server"].startswith("kv_server \\- keeps keys"), names


def test_help_shows_no_syntax_of_the_parser_in_optional_values(pages: Path) -> None:
    said = run(BUILD / "verbena", "run", "--help")
    assert "--trace-format TEXT:{text,json}\n" in said and "--check [=LEVEL] " in said, said
