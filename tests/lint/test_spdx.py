# SPDX-License-Identifier: Apache-2.0
"""The licence line of source files, and the tool that adds it."""

from pathlib import Path

import pytest
import spdx

TAG = spdx.TAG


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.cc", "// A.\nint a;\n", f"// {TAG}\n// A.\nint a;\n"),
        ("a.h", "#pragma once\n", f"// {TAG}\n#pragma once\n"),
        ("a.S", ".text\n", f"/* {TAG} */\n.text\n"),
        ("a.map", "V { local: *; };\n", f"/* {TAG} */\nV {{ local: *; }};\n"),
        ("a.py", '"""A."""\n', f'# {TAG}\n"""A."""\n'),
        ("a.py", '#!/usr/bin/python3\n"""A."""\n', f'#!/usr/bin/python3\n# {TAG}\n"""A."""\n'),
        ("run", "#!/bin/bash\ntrue\n", f"#!/bin/bash\n# {TAG}\ntrue\n"),
        ("CMakeLists.txt", "project(a)\n", f"# {TAG}\nproject(a)\n"),
        ("a.go", "package a\n", f"// {TAG}\n\npackage a\n"),
        ("a.html", "<p>\n", f"{{# {TAG} #}}\n<p>\n"),
    ],
)
def test_the_line_is_added_once(tmp_path: Path, name: str, before: str, after: str) -> None:
    path = tmp_path / name
    path.write_text(before)
    assert spdx.main([str(path)]) == 1
    for _ in range(2):
        assert spdx.main(["--add", str(path)]) == 0
        assert path.read_text() == after
    assert spdx.main([str(path)]) == 0


@pytest.mark.parametrize(("name", "text"), [("a.md", "# A\n"), ("a.csv", "a,b\n"), ("LICENSE", "A\n"), ("a.py", "")])
def test_a_document_data_and_an_empty_file_need_no_line(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert spdx.main([str(tmp_path / name)]) == 0


def test_another_licence_is_an_objection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.c").write_text("// SPDX-License-Identifier: MIT\nint a;\n")
    assert spdx.main([str(tmp_path / "a.c")]) == 1
    assert "a.c:1: no line `// SPDX-License-Identifier: Apache-2.0`" in capsys.readouterr().out


def test_the_mode_of_a_program_stays(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    spdx.main(["--add", str(path)])
    assert path.stat().st_mode & 0o777 == 0o755
