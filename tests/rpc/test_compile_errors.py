# SPDX-License-Identifier: Apache-2.0
"""Programs that must not compile, and the message that the compiler must show for each.

CASES has one line of code each, and the text that its error contains; None: the line compiles.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = """#include <verbena/rpc.h>
using namespace verbena::rpc;
std::string echo(std::string_view text);
int add(int a, int b);
std::string_view dangling(std::string text);
void writes(std::string& text);
Lazy<void> count(stream_writer<int> out, int to);
void no_coroutine(stream_writer<int> out);
void use(Client& client, Server& server) {
    %s
}
"""
CANNOT_CONVERT = "an argument cannot be converted to its parameter of this RPC function"
CASES = {
    "(void)client.call<add>(1, 2); server.register_handler<echo, add>();": None,
    "(void)client.call<echo>(42);": CANNOT_CONVERT,
    "(void)client.call<echo>();": "too few arguments for this RPC function",
    '(void)client.call<echo>("", 0);': "too many arguments for this RPC function",
    '(void)client.send_request<add>(1, "two");': CANNOT_CONVERT,
    "server.register_handler<dangling>();": (
        "returns a view (std::string_view, std::span) and takes a parameter by value"
    ),
    "(void)client.open_stream<count>(3); server.register_handler<count>();": None,
    '(void)client.open_stream<count>("three");': CANNOT_CONVERT,
    "(void)client.open_stream<add>(1, 2);": "this RPC function has no stream: call() it",
    "(void)client.call<count>(3);": "this RPC function has a stream: open_stream() it",
    "server.register_handler<no_coroutine>();": "an RPC function that has a stream must be a coroutine",
    "server.register_handler<writes>();": "an RPC function cannot write to a parameter",
}


@pytest.mark.parametrize("line", CASES, ids=lambda line: line)
def test_a_mistake_is_explained_by_the_compiler(line: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    assert compiler
    (tmp_path / "use.cc").write_text(HEAD % line)
    command = [compiler, "-std=c++23", "-fsyntax-only", f"-I{ROOT}", f"-I{ROOT}/lib/include", "use.cc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    wanted = CASES[line]
    if wanted is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0 and wanted in done.stderr, done.stderr
