# SPDX-License-Identifier: Apache-2.0
"""Projects outside of our tree build against a moved installation, by CMake and by pkg-config, and
run.
"""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import HERE, ROOT, run, serving

STRANGERS = HERE / "strangers"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")


@pytest.fixture(scope="module")
def by_cmake(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, built by find_package()."""
    build = tmp_path_factory.mktemp("by-cmake")
    run("cmake", "-S", STRANGERS, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return build


@pytest.fixture(scope="module")
def by_pkg_config(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, built by hand. The prefix is none of the loader's folders, so its path is added."""
    build = tmp_path_factory.mktemp("by-pkg-config")
    environment = os.environ | {"PKG_CONFIG_PATH": str(next(prefix.rglob("pkgconfig")))}

    def flags(package: str) -> list[str]:
        words = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
        return [*words, "-Wl,-rpath," + run("pkg-config", "--variable=libdir", package, env=environment).strip()]

    run("cc", "-std=c11", *WARNINGS, STRANGERS / "kv.c", "-o", build / "kv_in_c", *flags("verbena-kv"))
    run("c++", *WARNINGS, STRANGERS / "kv.cc", "-o", build / "kv_in_cpp", *flags("verbena-kv"))
    run("c++", *WARNINGS, STRANGERS / "counter.cc", "-o", build / "counter", *flags("verbena-kv-client"))
    run("c++", *WARNINGS, STRANGERS / "greeter.cc", "-o", build / "greeter", *flags("verbena-rpc"))
    # The program of examples/kv included a header that only the source tree has.
    run("c++", *WARNINGS, ROOT / "examples" / "kv" / "client.cc", "-o", build / "example", *flags("verbena-kv-client"))
    return build


@pytest.mark.parametrize("way", ["by_cmake", "by_pkg_config"])
def test_a_client_of_the_store_is_served(
    way: str, prefix: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    build = request.getfixturevalue(way)
    with serving(prefix / "bin" / "kv_server", "--listen", "127.0.0.1", "--port", "0", environment=environment) as said:
        where = said.split("listening at ")[1].split(",")[0]
        assert run(build / "kv_in_c", where, env=environment) == "written in C\n"
        assert run(build / "kv_in_cpp", where, env=environment) == "written in C++\n"
        # The software NIC is no part of this program: `verbena run` adds it.
        environment = environment | {"VERBENA_DEVICES": "vb_lo"}
        on_the_nic = (prefix / "bin" / "verbena", "run", "--", build / "counter", where)
        assert "counted to 200\n" in run(*on_the_nic, env=environment)
        assert run(build / "counter", where, "tcp", env=environment) == "counted to 400\n"


@pytest.mark.parametrize("way", ["by_cmake", "by_pkg_config"])
def test_a_call_is_answered_over_tcp_and_over_rdma(
    way: str, prefix: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """The software NIC is no part of the program: `verbena run` adds it."""
    greeter = request.getfixturevalue(way) / "greeter"
    on_the_nic = (prefix / "bin" / "verbena", "run", "--", greeter)
    environment = environment | {"VERBENA_DEVICES": "vb_lo"}
    with serving(*on_the_nic, "serve", environment=environment) as port:
        assert "hello stranger\n" in run(greeter, port.strip(), env=environment)
        assert "hello stranger\n" in run(*on_the_nic, port.strip(), "rdma", env=environment)


def test_a_program_that_is_linked_to_the_nic_has_its_devices(by_cmake: Path, environment: dict[str, str]) -> None:
    assert "vb_lo\n" in run(by_cmake / "devices", env=environment | {"VERBENA_DEVICES": "vb_lo"})


def test_a_part_that_is_not_installed_is_named(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES C CXX)\n"
        "find_package(verbena REQUIRED COMPONENTS kv teleport)\n"
    )
    said = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", status=1)
    assert "this installation of verbena has no teleport" in " ".join(said.split()), said


def configured(prefix: Path, folder: Path, asked: str, status: int = 0) -> str:
    """Configure a project in C as if there were no OpenSSL; return the output as one line."""
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES C)\nfind_package(verbena REQUIRED {asked})\n"
        'foreach(name nic kv kv_client rpc)\nif(TARGET verbena::${name})\nmessage(STATUS "has ${name}.")\nendif()\n'
        f"endforeach()\nadd_executable(kv_in_c {STRANGERS}/kv.c)\ntarget_link_libraries(kv_in_c PRIVATE verbena::kv)\n"
    )
    without = "-DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON"
    words = ("-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", without)
    return " ".join(run("cmake", *words, status=status).split())


@pytest.mark.parametrize("asked", ["COMPONENTS kv", "", "COMPONENTS kv OPTIONAL_COMPONENTS rpc"])
def test_a_project_in_c_needs_no_openssl_for_the_store(prefix: Path, tmp_path: Path, asked: str) -> None:
    """OpenSSL was searched for a component that the project had not asked for."""
    said = configured(prefix, tmp_path, asked)
    run("cmake", "--build", tmp_path / "build")
    assert "has nic." in said and "has kv." in said and "has rpc." not in said and "has kv_client." not in said, said


def test_a_project_that_asks_for_rpc_reads_that_openssl_is_missing(prefix: Path, tmp_path: Path) -> None:
    assert "OpenSSL" in configured(prefix, tmp_path, "COMPONENTS kv rpc", status=1)


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("kv.h", "c99"),
        ("kv.h", "c17"),
        ("kv.h", "c++11"),
        ("kv.h", "c++23"),
        ("rpc.h", "c++23"),
        ("kv_client.h", "c++23"),
    ],
)
def test_a_public_header_compiles_alone(prefix: Path, header: str, language: str) -> None:
    run(
        "c++" if "++" in language else "cc",
        f"-std={language}",
        "-x" + ("c++" if "++" in language else "c"),
        "-fsyntax-only",
        *WARNINGS,
        f"-I{prefix / 'include'}",
        "-",
        stdin=None,
        input=f"#include <verbena/{header}>\n",
    )


def test_only_public_headers_and_those_that_they_include_are_installed(prefix: Path) -> None:
    include = prefix / "include" / "verbena"
    assert {path.name for path in include.iterdir()} == {"kv.h", "kv_client.h", "rpc.h", "detail"}
    needed = [
        subprocess.run(
            ["c++", "-std=c++23", "-xc++", "-M", f"-I{prefix / 'include'}", include / header],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for header in ("rpc.h", "kv_client.h")
    ]
    used = {path for path in "".join(needed).split() if "/verbena/detail/" in path}
    assert used == {str(path) for path in (include / "detail").rglob("*.h")}
