# SPDX-License-Identifier: Apache-2.0
"""The comparison of two versions of the source without comments, and of two disassemblies."""

import subprocess

import pytest
import same_code


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int f() { return 1; }  // one", "// A comment.\nint f()\n{\n\treturn 1;\n}\n"),
        ('auto s = "a" "b";', 'auto s = "ab";  // joined'),
        ("int a; /* x */ int b;", "int a;\nint b;"),
        ("std::vector<std::vector<int> > v;", "std::vector<std::vector<int>> v;"),
    ],
)
def test_comments_format_and_split_strings_are_the_same_source(before, after):
    assert same_code.bare("a.cc", before) == same_code.bare("a.cc", after)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.cc", "int f() { return 1; }", "int f() { return 2; }"),
        ("a.cc", 'auto s = "a b";', 'auto s = "a  c";'),
        ("a.cc", 'auto s = "a b";', 'auto s = "a  b";'),
        ("a.cc", 'auto s = R"(a\n)";', 'auto s = R"(a\n\n)";'),
        ("a.cc", "c = a - -b;", "c = a-- - b;"),
        ("a.cc", "char c = ' ';", "char c = '\\t';"),
        ("a.cc", "int n = 1'000;", "int n = 10'00'0;"),
        ("a.cc", 'auto s = "// a";', 'auto s = "// b";'),
        ("a.h", "#define N 1", "#define N 2"),
        ("a.py", 'x = "# a"\n', 'x = "# b"\n'),
        ("a.sh", "echo a", "echo b"),
    ],
)
def test_another_token_is_a_difference(name, before, after):
    assert same_code.bare(name, before) != same_code.bare(name, after)


def test_docstrings_and_comments_of_python_do_not_count():
    before = '"""Old."""\n\n\ndef f():\n    """Old."""\n    return 1  # old\n'
    after = '"""New."""\n\n\ndef f():\n    """New, and longer."""\n    # new\n    return 1\n'
    assert same_code.bare("a.py", before) == same_code.bare("a.py", after)


def test_an_interpreters_line_counts():
    assert same_code.bare("run", "#!/bin/bash\ntrue\n") != same_code.bare("run", "#!/bin/sh\ntrue\n")


def disassembly(tmp_path, source: str) -> dict[str, str]:
    (tmp_path / "a.cc").write_text(source)
    subprocess.run(["g++", "-O2", "-c", "a.cc"], cwd=tmp_path, check=True, timeout=60)
    text = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", "-C", "-w", "a.o"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return same_code.functions_of(text.stdout)


def test_a_changed_function_is_named_and_its_neighbour_is_not(tmp_path):
    before = disassembly(tmp_path, "int f(int a) { return a > 3 ? a : 7; }\nint g(int a) { return a * 3; }")
    after = disassembly(
        tmp_path, "int f(int a) { return a + a * a * 9 + 1; }\n\n// moved\nint g(int a) { return a * 3; }"
    )
    assert before.keys() == after.keys() == {"f(int)", "g(int)"}
    assert before["f(int)"] != after["f(int)"]
    assert before["g(int)"] == after["g(int)"]


def test_an_unknown_base_is_a_usage_error(capsys):
    assert same_code.main(["no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err


def test_a_changed_header_reaches_the_units_that_include_it_indirectly():
    unit = same_code.Unit("nic/wire/bth_test.cc", same_code.ROOT, ())
    other = same_code.Unit("lib/rpc/frame_test.cc", same_code.ROOT, ())
    units = {unit.name: unit, other.name: other}
    assert list(same_code.reached(units, {"nic/wire/numbers.h"})) == [unit.name]
