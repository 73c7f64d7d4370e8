# SPDX-License-Identifier: Apache-2.0
"""The Python client against the C++ test server, and the server against garbage from Python."""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
msgpack = pytest.importorskip("msgpack")
pytest.importorskip("OpenSSL")

from verbena_rpc import Client, RpcError, frame, function_id  # noqa: E402
from verbena_rpc.channel import ChannelError, TcpChannel  # noqa: E402
from verbena_rpc.tls import Tls  # noqa: E402

BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))


class Server:
    """rpc_test_server in a process of its own (lib/rpc/testing/server_main.cc)."""

    def __init__(self, transport: str = "tcp") -> None:
        self.process = subprocess.Popen(
            [BUILD / "bench" / "rpc_test_server", "1", transport],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.port = int(self.process.stdout.readline())

    def stop(self) -> int:
        self.process.stdin.close()
        return self.process.wait(20)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.process.kill()
    running.process.wait(20)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client("127.0.0.1", server.port) as connected:
        yield connected


def test_a_function_id_is_fnv1a() -> None:
    assert function_id("foobar") == 0xBF9CF968


def test_functions_of_every_kind_are_called(client: Client) -> None:
    assert client.call("rpc_test::echo", "hello") == "hello"
    assert client.call("rpc_test::add", 40, 2) == 42
    assert client.call("rpc_test::nothing") is None
    assert client.call("rpc_test::later", "text") == "later: text"
    assert client.call("rpc_test::wait_ms", 1) == 1
    assert client.call("rpc_test::Counter::increase", 5) == 5
    assert client.call("sum", 3, 4) == 7
    assert client.call("rpc_test::older", ["Ada", 36, ["Mary"]], 4, False) == ["Ada", 40, ["Mary"]]


def test_attachments_travel_both_ways(client: Client) -> None:
    for size in (1, 1_000, 300_000):
        assert (
            client.call_with_attachment("rpc_test::attachment_back", attachment=b"a" * size).attachment == b"a" * size
        )


def test_errors_have_their_code_and_text(client: Client) -> None:
    for function, arguments, code, text in (
        ("rpc_test::throw_code", (10_404, "no such page"), 10_404, "no such page"),
        ("rpc_test::throw_exception", (), 10, "the disk is on fire"),
        ("nobody", (), 11, "registered"),
        ("rpc_test::add", ("one", 2), 4, "parameters of rpc_test::add"),
    ):
        with pytest.raises(RpcError) as caught:
            client.call(function, *arguments)
        assert caught.value.code == code and text in caught.value.message
    assert client.call("rpc_test::add", 1, 1) == 2


class FullError(RpcError):
    """An error of a program, whose constructor has other arguments."""

    def __init__(self) -> None:
        super().__init__(10_404, "no such page")
        self.page = 7


@pytest.mark.parametrize("error", [RpcError(3, "no response in time"), FullError(), ChannelError("it broke")])
def test_an_error_is_unpickled(error: Exception) -> None:
    """It was a TypeError, from which multiprocessing.Pool hung for ever."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same = pickle.loads(pickle.dumps(error, protocol))
        assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))


def test_a_call_that_fails_before_it_is_sent_does_not_stay_in_flight(client: Client) -> None:
    """An attachment of a wrong type, a timeout of infinity and so on left an entry for ever."""
    wrong: Any = client
    for mistake in (
        lambda: wrong.call("rpc_test::add", 1, 2, attachment="text"),
        lambda: wrong.send("rpc_test::add", 1, 2, attachment=5),
        lambda: wrong.call(7),
        lambda: wrong.send(b"rpc_test::add", 1, 2),
        lambda: wrong.call("rpc_test::add", 1, object()),
        lambda: client.call("rpc_test::add", 1, 2, timeout=float("inf")),
        lambda: client.call("rpc_test::add", 1, 2, timeout=float("nan")),
        lambda: client.call("rpc_test::add", 1, 2, timeout=1e300),
        lambda: client.stream("rpc_test::mean", timeout=float("inf")),
        lambda: client.stream("rpc_test::mean", timeout=float("nan")),
        lambda: wrong.stream(7),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)):
            mistake()
        assert client._waiting == {} and client._streams == {}
    assert client.call("rpc_test::add", 1, 2) == 3


def test_a_timeout_below_0_is_refused_and_the_client_goes_on(server: Server) -> None:
    """Such a call had no limit at the server, and its connection was closed."""
    with Client("127.0.0.1", server.port) as client:
        for call in (client.call, client.stream):
            with pytest.raises(ValueError, match="timeout is -1, not 0 seconds or more"):
                call("rpc_test::add", 1, 2, timeout=-1)
        assert client.call("rpc_test::add", 1, 2) == 3
    with pytest.raises(ValueError, match=r"timeout is -0\.5"):
        Client("127.0.0.1", server.port, timeout=-0.5)


def test_the_error_of_an_unknown_function_names_it(client: Client) -> None:
    with pytest.raises(RpcError, match="registered at the server: no_such_function"):
        client.call("no_such_function", 1)
    with client.stream("no_such_stream") as stream, pytest.raises(RpcError, match="no_such_stream"):
        list(stream)


def test_without_msgpack_the_import_says_what_to_install(tmp_path: Path) -> None:
    """The bare ModuleNotFoundError did not name the packages."""
    (tmp_path / "msgpack.py").write_text("raise ModuleNotFoundError('none', name='msgpack')")
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import verbena_rpc"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: verbena_rpc needs msgpack: pip install msgpack, or Debian's python3-msgpack" in done.stderr


def test_many_are_under_way_together(client: Client) -> None:
    slow = client.send("rpc_test::wait_ms", 100)
    quick = [client.send("rpc_test::add", i, i) for i in range(200)]
    assert [each.result(10).value for each in quick] == [2 * i for i in range(200)]
    assert slow.result(10).value == 100


def test_a_call_that_times_out_is_canceled_at_the_server(client: Client) -> None:
    with pytest.raises(RpcError) as caught:
        client.call("rpc_test::until_cancelled", timeout=0.05)
    assert caught.value.code == 3
    while client.call("rpc_test::count_of_cancelled") == 0:
        pass


def test_a_request_without_a_response_times_out(server: Server) -> None:
    with Client("127.0.0.1", server.port, timeout=0.2) as client:
        with pytest.raises(RpcError) as caught:
            client.send("rpc_test::wait_ms", 5_000).result(20)
        assert caught.value.code == 3
        assert client.call("rpc_test::add", 1, 2) == 3


def test_a_result_that_cannot_be_a_python_value_fails_alone(client: Client) -> None:
    with pytest.raises(RpcError, match="the result cannot be read"):
        client.call("rpc_test::map_of_lists")
    assert client.call("rpc_test::add", 1, 2) == 3


def test_sending_more_than_both_ends_buffer_does_not_deadlock(client: Client) -> None:
    """A server whose responses are not read stops reading: a blocked send must not block reads."""
    block = os.urandom(1 << 20)
    answers = [client.send("rpc_test::attachment_back", attachment=block) for _ in range(120)]
    assert all(each.result(60).attachment == block for each in answers)


def test_threads_share_a_client(client: Client) -> None:
    sums: list[int] = []
    threads = [
        threading.Thread(target=lambda: sums.extend(client.call("rpc_test::add", i, 1) for i in range(50)))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert len(sums) == 200


def test_a_graceful_stop_answers_what_is_in_flight(server: Server, client: Client) -> None:
    slow = client.send("rpc_test::wait_ms", 300)
    assert server.stop() == 0
    assert slow.result(5).value == 300
    with pytest.raises(RpcError) as caught:
        client.call("rpc_test::add", 1, 2)
    assert caught.value.code in (1, 2)


def test_streams_have_items_in_each_direction(client: Client) -> None:
    with client.stream("rpc_test::count_up", 0, 50_000) as numbers:
        assert list(numbers) == list(range(50_000))
        assert numbers.finish() == 50_000
    with client.stream("rpc_test::mean") as mean:
        for number in range(20_001):
            mean.write(float(number))
        assert mean.finish() == 10_000
    with client.stream("rpc_test::shout", "!") as talk:
        replies = iter(talk)
        for word in ("a", "b" * 5_000, "c" * 500_000):
            talk.write(word)
            assert next(replies) == word + "!"
        assert talk.finish() == 3


def test_a_stream_fails_after_its_items_and_at_its_timeout(client: Client) -> None:
    seen = []
    with pytest.raises(RpcError, match="no more pages"):
        seen.extend(client.stream("rpc_test::throw_after", 10))
    with client.stream("rpc_test::until_broken", timeout=0.05) as late, pytest.raises(RpcError) as caught:
        list(late)
    assert caught.value.code == 3
    while client.call("rpc_test::why_broken") not in (3, 9):
        pass
    with client.stream("rpc_test::count_up", 0, 1_000_000) as left:
        assert next(iter(left)) == 0
    assert client.call("rpc_test::add", 1, 2) == 3


def test_an_item_of_another_type_fails_its_stream_only(client: Client) -> None:
    with client.stream("rpc_test::mean") as mean:
        mean.write("a word")
        with pytest.raises(RpcError, match="an item cannot be read"):
            mean.finish()
    assert client.call("rpc_test::add", 1, 2) == 3


def test_a_server_without_streams_is_detected() -> None:
    old = Server("tcp-old")
    with Client("127.0.0.1", old.port) as client:
        for _ in range(2):
            with pytest.raises(RpcError, match="has no streams"):
                client.stream("rpc_test::count_up", 0, 1)
        assert client.call("rpc_test::add", 1, 2) == 3
    assert old.stop() == 0


def test_a_client_that_exceeds_the_window_loses_its_connection(server: Server, client: Client) -> None:
    channel = TcpChannel("127.0.0.1", server.port, 10)
    channel.send(frame.encode(frame.OPEN, 1, function_id("rpc_test::read_when_allowed")))
    item = frame.encode(frame.ITEM, 1, 0, msgpack.packb("i" * 10_000))
    until = time.monotonic() + 20
    with pytest.raises(ConnectionError):
        while time.monotonic() < until:
            channel.send(item)
    channel.close()
    assert client.call("rpc_test::add", 1, 2) == 3


@pytest.fixture
def tls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a server in TLS, which creates an identity for a user of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    running = Server("tls")
    yield running
    assert running.stop() == 0


def test_tls_works_with_one_users_identity(tls_server: Server) -> None:
    with Client("127.0.0.1", tls_server.port, tls=Tls()) as client:
        assert client.call("rpc_test::who") == "rpc_test::who over tcp+tls"
        for size in (1, 100_000, 3_000_000):
            assert (
                client.call_with_attachment("rpc_test::attachment_back", attachment=b"t" * size).attachment
                == b"t" * size
            )
        many = [client.send("rpc_test::add", i, i) for i in range(200)]
        assert [each.result(10).value for each in many] == [2 * i for i in range(200)]


def test_another_users_key_is_refused(tls_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert Server("tls").stop() == 0  # it makes an identity there
    with pytest.raises(ConnectionError, match="TLS"):
        Client("127.0.0.1", tls_server.port, tls=Tls())


def test_tls_with_an_authority_checks_the_servers_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [BUILD / "verbena", "certs", "--dir", tmp_path, "--host", "127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    for name, file in (("CA", "ca.pem"), ("CERT", "server.pem"), ("KEY", "server.key")):
        monkeypatch.setenv(f"VERBENA_{name}", str(tmp_path / file))
    server = Server("tls")
    own = Tls(ca=str(tmp_path / "ca.pem"), cert=str(tmp_path / "client.pem"), key=str(tmp_path / "client.key"))
    try:
        with Client("127.0.0.1", server.port, tls=own) as client:
            assert client.call("rpc_test::add", 20, 22) == 42
        with pytest.raises(ConnectionError, match="not for localhost"):
            Client("localhost", server.port, tls=own)
    finally:
        assert server.stop() == 0


def test_a_plain_client_learns_that_the_server_requires_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    tls = Server("tls")
    try:
        with pytest.raises(ConnectionError, match="TLS"):
            Client("127.0.0.1", tls.port)
    finally:
        assert tls.stop() == 0


GARBAGE = [
    b"",
    b"\x15" * 20,
    frame.encode(frame.REQUEST, 1)[:-1],
    frame.encode(frame.REQUEST, 1, function_id("rpc_test::add"), b"\xdd\xff\xff\xff\xff"),
    frame.encode(frame.REQUEST, 1, function_id("rpc_test::add"), b"\x91" * 100_000),
    frame.encode(frame.REQUEST, 1, 0, b"a")[:12] + b"\xff" * 12,
    frame.encode(frame.RESPONSE, 1, 0, b"\xc0"),
    frame.encode(11, 1),
    frame.encode(frame.ITEM, 1, 0, b"\xc0") + frame.encode(frame.WINDOW, 1, 7) + frame.encode(frame.DONE, 1),
    frame.encode(frame.ITEM, 1),
    frame.encode(frame.WINDOW, 1, 0),
    frame.encode(frame.OPEN, 1, function_id("rpc_test::mean")) * 2,
    frame.encode(frame.OPEN, 1, function_id("rpc_test::mean")) + frame.encode(frame.WINDOW, 1, 0xFFFFFFFF) * 2,
    frame.encode(frame.OPEN, 1, function_id("rpc_test::mean"))
    + frame.encode(frame.DONE, 1)
    + frame.encode(frame.ITEM, 1, 0, b"\xc0"),
    frame.encode(frame.OPEN, 1, function_id("rpc_test::add"), b"\x92\x01\x02"),
    frame.encode(frame.REQUEST, 1, function_id("rpc_test::mean")),
    frame.encode(frame.CANCEL, 77) * 1000,
    bytes(range(256)) * 100,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_costs_its_sender_the_connection_at_most(server: Server, client: Client, garbage: bytes) -> None:
    channel = TcpChannel("127.0.0.1", server.port, 10)
    channel.send(garbage)
    channel.send(frame.encode(frame.PING, 5))
    with contextlib.suppress(ConnectionError):  # an answer, or the end
        assert channel.receive()
    channel.close()
    assert client.call("rpc_test::add", 1, 2) == 3


def test_a_connection_that_breaks_within_a_message_harms_no_other(server: Server, client: Client) -> None:
    channel = TcpChannel("127.0.0.1", server.port, 10)
    channel._socket.sendall(b"\xff\xff\x00\x00half")
    channel.close()
    assert client.call("rpc_test::add", 1, 2) == 3
