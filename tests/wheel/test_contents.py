# SPDX-License-Identifier: Apache-2.0
"""The files and the metadata of the wheel."""

import email
import re
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, build_wheel, run

SHARE = "verbena/share/"
VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.fixture(scope="module")
def files(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def metadata(files: dict[str, str]) -> email.message.Message:
    return email.message_from_string(files[f"verbena-{VERSION}.dist-info/METADATA"])


def old_wheels(folder: Path) -> set[Path]:
    """Put old wheels into a folder: one for any machine, and one for another platform."""
    names = ("verbena-0.0.1-py3-none-any.whl", "verbena-0.0.1-py3-none-linux_other.whl")
    for name in names:
        (folder / name).touch()
    return {folder / name for name in names}


def test_a_wrong_folder_of_libraries_is_named_and_no_wheel_is_lost(tmp_path: Path) -> None:
    """The wheels of the folder were deleted first, and then there was a traceback."""
    old = old_wheels(tmp_path)
    for folder in (tmp_path / "missing", tmp_path):
        words = ("--out", tmp_path, "--libraries", folder)
        said = run(sys.executable, "-B", ROOT / "python" / "wheel.py", *words, status=2)
        assert said.startswith(f"wheel.py: --libraries {folder} is not the folder of a build"), said
        assert said.count("\n") == 1, said
    assert set(tmp_path.iterdir()) == old


def test_a_build_that_fails_leaves_the_wheels_that_were_there(tmp_path: Path) -> None:
    old = old_wheels(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "cmake_install.cmake").write_text('message(FATAL_ERROR "no")\n')
    for name in ("libverbena-nic.so", "libverbena-kv.so.0"):
        (tmp_path / "build" / name).touch()
    words = ("--out", tmp_path, "--libraries", tmp_path / "build")
    said = run(sys.executable, "-B", ROOT / "python" / "wheel.py", *words, status=1)
    assert said.endswith("\nwheel.py: cmake has ended with 1: no wheel was built\n"), said
    assert set(tmp_path.iterdir()) == old | {tmp_path / "build"}


def test_a_wheel_replaces_the_one_of_its_platform_alone(tmp_path: Path, wheel: Path) -> None:
    any_machine, other = sorted(old_wheels(tmp_path))
    said = run(sys.executable, "-B", ROOT / "python" / "wheel.py", "--out", tmp_path)
    made = tmp_path / wheel.name
    assert said == f"{made}\n" and made.read_bytes() == wheel.read_bytes()
    assert set(tmp_path.iterdir()) == {made, other} and not any_machine.exists()


def test_its_name_has_the_version_and_it_is_for_any_machine(wheel: Path) -> None:
    assert wheel.name == f"verbena-{VERSION}-py3-none-any.whl"


def test_it_has_the_files_of_the_report_and_the_published_tables(files: dict[str, str]) -> None:
    tree = [path for name in ("report", "bench/published") for path in (ROOT / name).rglob("*") if path.is_file()]
    names = {str(path.relative_to(ROOT)) for path in tree}
    wanted = {name for name in names if not re.search(r"/tests/|\.md$|/__pycache__/", name)}
    assert len(wanted) > 50
    assert {name.removeprefix(SHARE) for name in files if name.startswith(SHARE)} == wanted | {"chart.js/chart.min.js"}


def test_it_has_no_tests_and_no_path_of_this_machine(files: dict[str, str]) -> None:
    assert not [name for name in files if "test" in name or "__pycache__" in name or name.endswith(".pyc")]
    assert not [name for name, text in files.items() if str(ROOT) in text]


def test_its_packages_are_typed(files: dict[str, str]) -> None:
    assert {f"{name}/py.typed" for name in ("verbena", "verbena_kv", "verbena_rpc")} <= set(files)


def test_it_has_the_licence_and_the_notices_of_what_it_contains(files: dict[str, str]) -> None:
    folder = f"verbena-{VERSION}.dist-info/"
    assert files[folder + "LICENSE"] == (ROOT / "LICENSE").read_text()
    notice = files[folder + "NOTICE"]
    # The comments in the minified file name its parts, such as "@kurkle/color v0.2.1".
    parts = re.findall(r"^ \* (\S+) v([0-9.]+)$", files[SHARE + "chart.js/chart.min.js"], re.MULTILINE)
    assert len(parts) == 2
    assert not [part for part, version in parts if f"{part} {version} (" not in notice]


def test_its_metadata_says_what_a_user_needs(files: dict[str, str]) -> None:
    about = metadata(files)
    assert (about["Name"], about["Version"], about["License"]) == ("verbena", VERSION, "Apache-2.0")
    assert about["Requires-Python"] == ">=3.11"
    assert set(about.get_all("Provides-Extra")) == {"report", "tls"}
    needed = [line for line in about.get_all("Requires-Dist") if "extra" not in line]
    assert [re.split(r"\W", line)[0] for line in needed] == ["msgpack"]
    assert "verbena_rpc" in about.get_payload() and "verbena_kv" in about.get_payload()


def test_two_wheels_of_one_commit_are_equal(wheel: Path, tmp_path: Path) -> None:
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_a_wheel_with_libraries_names_its_platform_and_no_folder_of_this_machine(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "--libraries", BUILD)
    assert re.fullmatch(rf"verbena-{VERSION}-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if ".so" in name}
    assert set(libraries) == {"verbena_kv/libverbena-kv.so.0", "verbena_kv/libverbena-nic.so"}
    assert not [name for name, content in libraries.items() if str(BUILD).encode() in content]
