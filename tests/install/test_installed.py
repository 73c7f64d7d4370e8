# SPDX-License-Identifier: Apache-2.0
"""The files of each component, and the installed programs at work in a moved prefix."""

import re
from pathlib import Path

import pytest
from conftest import COMPONENTS, ROOT, install, run, serving

FILES = {
    "nic": {
        "bin/verbena",
        "lib/libverbena-nic.so",
        "lib/verbena/libibverbs.so",
        "lib/verbena/libibverbs.so.1",
        "lib/verbena/thread_sanitizer.suppressions",
    },
    "tools": {
        f"bin/{name}" for name in ("kv_client", "performance_test", "rc_client", "rc_server", "ud_client", "ud_server")
    },
    "servers": {"bin/echo_server", "bin/kv_server"},
    # The whole version of the library follows.
    "kv": {"lib/libverbena-kv.so.0"},
}
# The libraries that libverbena-kv needs, and those below them.
KV_NEEDS_MAX = 16


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_has_its_files_and_no_other(component: str, tmp_path: Path) -> None:
    files = install(tmp_path, component)
    if component == "dev":
        assert {Path(name).name for name in files if "/detail/" not in name} == {
            *("kv.h", "kv_client.h", "rpc.h", "libverbena-kv.so", "libverbena-kv-client.a", "libverbena-rpc.a"),
            *("verbena-kv.pc", "verbena-kv-client.pc", "verbena-rpc.pc"),
            *("verbena-config.cmake", "verbena-config-version.cmake"),
            *(
                f"verbena-{name}{end}.cmake"
                for name in ("nic", "kv", "kv_client", "rpc")
                for end in ("", "-relwithdebinfo")
            ),
        }
    elif component == "python":
        assert {"share/verbena/report/__main__.py", "share/verbena/bench/published/claims.csv"} <= files
        assert {Path(name).parts[0] for name in files} == {"lib", "share"}
        assert not any("test" in name or "__pycache__" in name for name in files), files
    else:
        pages = {name for name in files if name.startswith("share/doc/verbena/")}
        assert {name for name in files - pages if not re.search(r"\.so\.0\.", name)} == FILES[component]
        assert bool(pages) == (component == "nic")


def test_each_page_that_a_message_or_help_text_names_is_installed(prefix: Path) -> None:
    """Findings of `run --check` named pages that an installation did not have."""
    pages = prefix / "share" / "doc" / "verbena"
    sources = [path for folder in ("tools", "nic", "lib") for path in (ROOT / folder).rglob("*.cc")]
    named = {name for path in sources for name in re.findall(r"docs/([\w/-]+\.md)", path.read_text())}
    named |= {f"rules/{path.name}" for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert len(named) > 80 and {"check.md", "adversary.md", "kv.md"} <= named
    assert [name for name in named if not (pages / name).is_file()] == []
    assert not (pages / "results").exists()


def test_each_link_of_an_installed_page_leads_to_an_installed_file(prefix: Path) -> None:
    """44 links led to files of the source tree, beside and above the folder of the pages."""
    root = prefix / "share" / "doc" / "verbena"
    pages = list(root.rglob("*.md"))
    assert len(pages) > 100
    links = [
        (page, name)
        for page in pages
        for name in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in name
    ]
    assert len(links) > 300
    dead = [f"{page.relative_to(root)}: {name}" for page, name in links if not (page.parent / name).exists()]
    assert dead == []
    assert all((page.parent / name).resolve().is_relative_to(root.resolve()) for page, name in links)
    # A link to a file that is not installed has become the place of the file.
    assert "([batches](" in (ROOT / "docs" / "kv.md").read_text()
    assert "(batches (`bench/kv/batches/README.md` of the sources))" in (root / "kv.md").read_text()
    assert "[`client.cc`](examples/rpc/client.cc)" in (root / "rpc.md").read_text()


def test_the_text_of_an_installed_page_is_that_of_the_sources_but_for_its_links(prefix: Path) -> None:
    def text(page: Path) -> str:
        return re.sub(r"\]\([^()]*\)|\[|`| \(?`[\w/.-]+` of the sources\)?", "", page.read_text())

    pages = [page for page in (ROOT / "docs").rglob("*.md") if "results" not in page.parts]
    changed = []
    for page in pages:
        installed = prefix / "share" / "doc" / "verbena" / page.relative_to(ROOT / "docs")
        if "of the sources" not in installed.read_text() and text(page) != text(installed):
            changed.append(page)
    assert changed == []


def test_each_example_is_installed_as_it_is(prefix: Path) -> None:
    installed = prefix / "share" / "doc" / "verbena"
    suffixes = {"", ".c", ".cc", ".h", ".json", ".md", ".py", ".yml"}
    sources = [path for path in (ROOT / "examples").rglob("*") if path.is_file() and path.suffix in suffixes]
    # A program that a reader has built in the folder of an example is none of them.
    sources = [path for path in sources if path.suffix or path.read_bytes()[:4] != b"\x7fELF"]
    assert len(sources) > 25
    for path in sources:
        copy = installed / path.relative_to(ROOT)
        assert path.suffix == ".md" or copy.read_bytes() == path.read_bytes(), path
        assert copy.stat().st_mode & 0o111 == path.stat().st_mode & 0o111, path


def test_programs_and_libraries_name_no_folder_but_by_their_own(prefix: Path) -> None:
    """A build folder in the search path of an installed file works on one machine only."""
    files = [*(prefix / "bin").iterdir(), *prefix.rglob("*.so.0"), *prefix.rglob("libverbena-nic.so")]
    for path in files:
        found = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", path))
        expected = {"libverbena-nic.so": [], "libverbena-kv.so.0": ["$ORIGIN"]}.get(path.name, ["$ORIGIN/../lib"])
        assert found == expected, path
    text = "".join(path.read_text() for path in prefix.rglob("*") if path.suffix in {".pc", ".cmake"})
    assert str(ROOT) not in text and str(prefix.parent) not in text


def test_the_library_of_the_store_needs_few_libraries(prefix: Path) -> None:
    """libcurl, which only clients of etcd use, comes with 27 others."""
    needed = run("ldd", next(prefix.rglob("libverbena-kv.so.0")))
    assert "libcurl" not in needed and "liblmdb" not in needed and "not found" not in needed, needed
    assert len(needed.splitlines()) <= KV_NEEDS_MAX, needed
    assert "SONAME" in (dynamic := run("readelf", "-d", next(prefix.rglob("libverbena-kv.so.0"))))
    assert "[libverbena-kv.so.0]" in dynamic


def test_verbena_finds_the_nic_of_its_own_prefix(prefix: Path, environment: dict[str, str]) -> None:
    verbena = prefix / "bin" / "verbena"
    environment = environment | {"VERBENA_DEVICES": "vb_lo"}
    assert "vb_lo" in run(verbena, "devices", env=environment)
    assert "hca_id:\tvb_lo" in run(verbena, "run", "--", "ibv_devinfo", env=environment)
    paths = run(verbena, "run", "--", "sh", "-c", "echo $LD_PRELOAD $LD_LIBRARY_PATH", env=environment).split()
    assert paths == [str(next(prefix.rglob("libverbena-nic.so"))), str(prefix / "lib" / "verbena")]


def test_verbena_writes_a_report_with_the_published_table(
    prefix: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    table = next(prefix.rglob("rc_vs_ud.csv"))
    page = tmp_path / "page.html"
    run(prefix / "bin" / "verbena", "report", table, "-o", page, env=environment, cwd=tmp_path)
    text = page.read_text()
    assert "<figure" in text and "SEND 8192 B, window 64" in text
    assert list(tmp_path.glob("*.svg"))


def test_a_missing_report_is_named_with_its_component(tmp_path: Path, environment: dict[str, str]) -> None:
    install(tmp_path, "nic")
    said = run(tmp_path / "bin" / "verbena", "report", "x.csv", env=environment, status=2)
    assert f"{tmp_path}/share/verbena/report" in said and "component python" in said


def test_the_installed_client_reaches_the_installed_server(prefix: Path, environment: dict[str, str]) -> None:
    server = prefix / "bin" / "kv_server"
    with serving(server, "--listen", "127.0.0.1", "--port", "0", environment=environment) as said:
        where = said.split("listening at ")[1].split(",")[0]
        answer = run(prefix / "bin" / "kv_client", where, stdin=None, input="SET key value\nGET key\n", env=environment)
    assert "value\n" in answer


@pytest.mark.parametrize("name", ["verbena_kv", "verbena_rpc"])
def test_an_installed_python_client_can_be_imported(name: str, prefix: Path, environment: dict[str, str]) -> None:
    (package,) = prefix.rglob(name)
    # verbena_kv finds the library of the prefix, which no loader knows.
    connect = "; verbena_kv.library.library()" if name == "verbena_kv" else ""
    found = run(
        "/usr/bin/python3",
        "-B",
        "-c",
        f"import {name}; print({name}.__file__){connect}",
        env=environment | {"PYTHONPATH": str(package.parent)},
    )
    assert found.strip() == str(package / "__init__.py")
