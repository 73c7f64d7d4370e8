# SPDX-License-Identifier: Apache-2.0
"""Our libraries have the sonames and symbols of the committed lists."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import symbols

BUILD = Path(os.environ.get("VERBENA_BUILD", symbols.ROOT / "build"))
WRITE = "tests/release/symbols.py --write adds it to the list"


@pytest.mark.parametrize("name", symbols.LIBRARIES)
def test_no_symbol_that_a_built_program_may_need_is_removed(name: str) -> None:
    removed, _ = symbols.differences(name, BUILD)
    assert removed == [], "this takes a new SOVERSION"


@pytest.mark.parametrize("name", symbols.LIBRARIES)
def test_each_exported_symbol_is_in_the_list(name: str) -> None:
    _, added = symbols.differences(name, BUILD)
    assert added == [], WRITE


def test_a_removed_symbol_and_a_new_one_are_found(tmp_path: Path) -> None:
    source = tmp_path / "library.c"
    source.write_text("int kv_open(void) { return 0; }\nint kv_new(void) { return 0; }\n")
    for name in symbols.LIBRARIES:
        shutil.copy(BUILD / f"{name}.so", tmp_path)
    library = tmp_path / "libverbena-kv.so"
    library.unlink()
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libverbena-kv.so.0", str(source), "-o", str(library)]
    subprocess.run(command, timeout=60, check=True)
    program = [str(Path(symbols.__file__)), "--build", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    said = done.stdout.splitlines()
    assert "libverbena-kv: removed: kv_set@@VERBENA_KV_0.1" in said
    assert "libverbena-kv: not in the list: kv_new" in said
    assert not [line for line in said if "libverbena-nic" in line or "soname" in line]
