# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/rpc: they are short, they run, and docs/rpc.md shows their code.

The programs that begin with "published" must be coro_rpc's examples except for their include and
namespace lines.
"""

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "rpc"
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "bench"
CLIENT_SAYS = "echo: hello rdma\nprice: 10.0\nerror 10400: order at least one\nreverse: cba\n"
STREAM_CLIENT_SAYS = "2 3 5 7 11 and that is all\nmean: 500.5\nshout: hello!\n1 word\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}


@contextlib.contextmanager
def serving(program: str, transport: str, environment: dict[str, str]) -> Iterator[list[str]]:
    """Run a server, and yield the arguments for its clients: the port, and "rdma" if served."""
    words = ["rdma"] if transport == "rdma" else []
    process = subprocess.Popen(
        [BUILD / program, "0", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    yield [process.stdout.readline().split()[-1], *words]
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.fixture(params=["tcp", "rdma"])
def served(request: pytest.FixtureRequest, environment: dict[str, str]) -> Iterator[list[str]]:
    with serving("rpc_server", request.param, environment) as words:
        yield words


def run(name: str, *words: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [BUILD / name, *words], capture_output=True, text=True, timeout=30, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_program_has_less_than_40_lines() -> None:
    for file in EXAMPLES.glob("*.cc"):
        # Without the licence line.
        assert len(file.read_text().splitlines()) - 1 < 40, file


def test_the_client_calls_every_kind(served: list[str], environment: dict[str, str]) -> None:
    assert run("rpc_client", *served, environment=environment) == CLIENT_SAYS


@pytest.mark.parametrize(
    ("server", "client"), [("rpc_stream_server", "rpc_client"), ("rpc_server", "rpc_stream_client")]
)
def test_a_client_of_another_server_prints_the_error_and_is_not_aborted(
    server: str, client: str, environment: dict[str, str]
) -> None:
    """The clients took the value of each call without a look at its error."""
    with serving(server, "tcp", environment) as words:
        done = subprocess.run(
            [BUILD / client, *words], capture_output=True, text=True, timeout=30, env=environment, check=False
        )
    assert done.returncode == 1 and "\nerror 11: no function of this name" in done.stderr, done


def test_the_python_examples_of_the_page_call_the_servers_that_they_name(environment: dict[str, str]) -> None:
    pytest.importorskip("msgpack")
    page = (ROOT / "docs" / "rpc.md").read_text()
    said = ""
    header, blocks = "", re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for block in blocks:
        header = header or block.partition("\n\n")[0]
        named = re.search(r"# build/bench/(\w+) (\d+)", block)
        assert named, block
        with serving(named[1], "tcp", environment) as words:
            program = header + "\n" + block.replace(named[2], words[0])
            done = subprocess.run(
                ["/usr/bin/python3", "-B", "-c", program],
                capture_output=True,
                text=True,
                timeout=30,
                env=environment | {"PYTHONPATH": str(ROOT / "python")},
                check=False,
            )
        assert done.returncode == 0, done.stderr
        said += done.stdout
    assert said == "hello\n10\n[2, 3, 5, 7, 11]\n"


def test_attachments_and_the_pool(served: list[str], environment: dict[str, str]) -> None:
    assert "came back" in run("rpc_attachment", served[0], environment=environment)
    assert run("rpc_pool", served[0], environment=environment) == "100 of 100 on 1 connection\n"


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_streams_have_items_in_both_directions(transport: str, environment: dict[str, str]) -> None:
    with serving("rpc_stream_server", transport, environment) as words:
        said = run("rpc_stream_client", *words, environment=environment)
    assert said == STREAM_CLIENT_SAYS


def test_calls_are_spread_over_servers(served: list[str], environment: dict[str, str]) -> None:
    if "rdma" in served:
        served.remove("rdma")  # the balancer's clients use TCP, which every server serves
    said = run("rpc_balance", f"127.0.0.1:{served[0]}", "127.0.0.1:1", environment=environment)
    assert said == f"127.0.0.1:{served[0]}: 30\n"


@pytest.mark.parametrize(
    "program", ["attachment", "balance", "client", "pool", "server", "stream_client", "stream_server"]
)
@pytest.mark.parametrize("words", [[], ["port"], ["65536"]])
def test_wrong_arguments_end_with_the_usage_and_not_with_abort(program: str, words: list[str]) -> None:
    if program == "balance" and words:
        return  # its arguments are addresses, which the library checks
    done = subprocess.run([BUILD / f"rpc_{program}", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: "), done


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def published_server(environment: dict[str, str]) -> Iterator[None]:
    """Run the published server at its published port, 9000, and wait until it listens."""
    server = subprocess.Popen([BUILD / "rpc_published_server"], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert "plain text" in server.stderr.readline()  # logged just before it listens
        deadline = time.monotonic() + 20
        while not listens(9000):
            assert server.poll() is None and time.monotonic() < deadline
        yield
    finally:
        server.kill()
        server.wait(20)


@pytest.mark.parametrize("program", ["rpc_published_client", "rpc_published_pool"])
def test_the_published_programs_run_and_fail_without_a_server(program: str, environment: dict[str, str]) -> None:
    with published_server(environment):
        run(program, environment=environment)
    done = subprocess.run([BUILD / program], capture_output=True, timeout=30, env=environment, check=False)
    assert done.returncode != 0


# The published code without its include and namespace lines. One difference: echo's parameter is a
# view, because a view of a std::string that was passed by value would dangle.
PUBLISHED = {
    "published_server.cc": """
        std::string_view echo(std::string_view str) { return str; }
        int main() {
          coro_rpc_server server(/*thread_number*/ std::thread::hardware_concurrency(), /*port*/ 9000);
          server.register_handler<echo>();
          server.init_ibv(); // Initialize RDMA resources
          server.start();
        }""",
    "published_client.cc": """
        std::string_view echo(std::string_view str);
        Lazy<void> async_request() {
          coro_rpc_client client{};
          client.init_ibv(); // Initialize RDMA resources
          co_await client.connect("127.0.0.1:9000");
          auto result = co_await client.call<echo>("hello rdma");
          assert(result.value() == "hello rdma");
        }
        int main() {
          syncAwait(async_request());
        }""",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_only_include_and_namespace_lines_differ_from_the_publication(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()
    code = [line for line in lines if not line.startswith(("// ", "#include ", "using namespace "))]
    assert squeezed("\n".join(code)) == squeezed(PUBLISHED[name])


def test_the_tutorial_shows_the_examples_and_nothing_else() -> None:
    tutorial = (ROOT / "docs" / "rpc.md").read_text().partition("\n## Tutorial\n")[2].partition("\n## ")[0]
    examples = [squeezed(file.read_text()) for file in EXAMPLES.iterdir()]
    blocks = re.findall(r"```cpp\n(.*?)```", tutorial, re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        assert any(squeezed(block) in text for text in examples), block
    assert re.findall(r"```text\n(.*?)```", tutorial, re.DOTALL) == [CLIENT_SAYS, STREAM_CLIENT_SAYS]


def squeezed(text: str) -> str:
    """Remove all white space, which the formatter may change."""
    return "".join(text.split())
