# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion, which are made from the help texts of the programs."""

import gzip
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, run

sys.path.append(str(ROOT / "deploy" / "packages"))
import help_text
import manual

PROGRAMS = (
    *("verbena", "kv_server", "kv_client", "echo_server", "performance_test"),
    *("rc_server", "rc_client", "ud_server", "ud_client"),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    generator = ROOT / "deploy" / "packages" / "generate.py"
    programs = [BUILD / name for name in PROGRAMS]
    environment = os.environ | {"VERBENA_REPORT": str(ROOT / "report")}
    run("/usr/bin/python3", "-B", generator, "--version", "0.1.0", "--out", folder, *programs, env=environment)
    return folder


def completed(pages: Path, line: str, breaks: str = "=") -> list[str]:
    """Return the words that bash offers at the end of a line; these characters are words, too."""
    program = line.split(" ")[0]
    words = [part for word in line.split(" ") for part in re.split(f"([{breaks}])" if breaks else "$^", word) if part]
    words += [""] * line.endswith(" ")
    script = (
        f". {pages / 'bash' / program}\n"
        f"COMP_WORDS=({' '.join(map(shlex.quote, words))})\nCOMP_CWORD={len(words) - 1}\n"
        f'_{program}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
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
        ("echo_server --wat", ["--watermark"]),
        ("echo_server --watermark ", ["wait", "close"]),
        ("echo_server --coalesce ", []),
    ],
)
def test_bash_offers_the_words_of_the_help_text(pages: Path, line: str, offered: list[str]) -> None:
    assert completed(pages, line) == offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("verbena run --log=in", ["info"]),
        ("verbena run --log=", ["error", "warn", "info", "debug"]),
        ("verbena run --profile=e8", ["e810"]),
        ("verbena run --check=", ["error", "portability", "advice"]),
        ("verbena run --check=adv", ["advice"]),
        ("verbena run --trace=t", []),
        ("verbena run --stats=tru", []),
        ("echo_server --engine=ur", ["uring"]),
    ],
)
def test_bash_completes_a_value_after_an_equals_sign(pages: Path, line: str, offered: list[str]) -> None:
    """bash makes a word of the "=", so that the names of programs were offered."""
    assert completed(pages, line) == offered
    option = line.split(" ")[-1].partition("=")[0]
    assert completed(pages, line, breaks="") == [f"{option}={each}" for each in offered]


def test_each_level_that_bash_offers_for_check_is_one() -> None:
    for level in ("error", "portability", "advice"):
        run(BUILD / "verbena", "run", f"--check={level}", "--", "true")


def test_bash_offers_programs_after_verbena_run(pages: Path) -> None:
    assert "bash" in completed(pages, "verbena run bas")
    assert "bash" in completed(pages, "verbena run --check bas")


def test_each_subcommand_has_a_page_with_its_options(pages: Path) -> None:
    names = {path.name for path in (pages / "man").iterdir()}
    assert {"verbena.1.gz", "verbena-run.1.gz", "verbena-bench-kv.1.gz", "verbena-report.1.gz"} <= names
    page = gzip.decompress((pages / "man" / "verbena-run.1.gz").read_bytes()).decode()
    assert "\\fB\\-\\-log\\fR \\fI{error,warn,info,debug}\\fR" in page and ".SH EXAMPLES" in page
    assert ".B verbena run\n[OPTIONS] [\\-\\-] PROGRAM [ARGUMENTS]\n" in page


@pytest.mark.parametrize("program", ["kv_server", "echo_server"])
def test_the_page_of_a_program_has_each_of_its_options(pages: Path, program: str) -> None:
    """Those of echo_server under the heading "Channels (...):" were lost."""
    page = page_of(pages, program)
    options = re.findall(r"^  (?:-h,)?(--[a-z-]+)", run(BUILD / program, "--help"), re.MULTILINE)
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


def help_of(page: str) -> str:
    """Return the help text from which a page was made: of verbena bench kv for verbena-bench-kv."""
    words = page.replace("self-test", "self_test").split("-")
    subcommands = [word.replace("_", "-") for word in words[1:]]
    return run(BUILD / words[0], *subcommands, "--help", env=os.environ | {"VERBENA_REPORT": str(ROOT / "report")})


def test_each_page_has_each_section_once_and_the_examples_of_the_help_text(pages: Path) -> None:
    """One had two sections EXIT STATUS, and one had its examples among its options."""
    names = sorted(path.name.removesuffix(".1.gz") for path in (pages / "man").iterdir())
    assert len(names) > 25
    for name in names:
        sections = re.findall(r"^\.SH (.*)", page_of(pages, name), re.MULTILINE)
        assert len(sections) == len(set(sections)), (name, sections)
        said = help_of(name)
        assert ("EXAMPLES" in sections) == bool(re.search(r"^examples?:", said, re.MULTILINE | re.IGNORECASE)), name
        assert ("EXIT STATUS" in sections) == ("exit code" in said.lower()), name


def test_no_option_has_the_text_below_the_options(pages: Path) -> None:
    """A paragraph before the examples went on after the last option."""
    for path in sorted((pages / "man").iterdir()):
        page = page_of(pages, path.name.removesuffix(".1.gz"))
        options = page.partition(".SH OPTIONS\n")[2].partition("\n.SH ")[0]
        lines = [line for line in options.split("\n") if not line.startswith(".SS ")]
        assert len(lines) % 3 == 0 and lines[::3] == [".TP"] * (len(lines) // 3), path
    explored = page_of(pages, "verbena-explore").partition(".SH OPTIONS\n")[0]
    assert "\nEach run has another seed of" in explored


def test_an_exit_code_that_the_text_explains_apart_is_in_the_same_section() -> None:
    """As in verbena bench scale, whose page had a section of its own for this sentence."""
    text = "Tries.\nUsage: tries [OPTIONS]\n\nOptions:\n  -h  Help\n\nExample:\n  tries\nExit code 1 also says that.\n"
    page = manual.page(help_text.parse(("tries",), text + "Ctrl-C ends it.\nExit codes: 0 good,\n1 bad.\n"), "1")
    assert page.count(".SH EXIT STATUS") == page.count(".SH EXAMPLES") == 1
    assert "\nCtrl\\-C ends it.\n.SH EXIT STATUS\nExit code 1 also says that.\n0 good,\n1 bad.\n.SH " in page


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
