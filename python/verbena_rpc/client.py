# SPDX-License-Identifier: Apache-2.0
"""The client: it numbers requests, and its reader thread gives each response to its caller.

Threads: Client is thread-safe. A reader thread of its own receives; it never waits for a send,
  because the server may be waiting until its own messages are read.
Errors: RpcError. The server is untrusted: after a frame that breaks the protocol all calls in
  flight fail, and no other can begin.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional

import msgpack

from . import frame
from .channel import TcpChannel
from .errors import (
    CANCELED,
    INVALID_RESULT,
    IO_ERROR,
    NO_SUCH_FUNCTION,
    NOT_CONNECTED,
    TIMED_OUT,
    VERSION,
    Reply,
    RpcError,
)
from .sender import Sender
from .stream import Stream

if TYPE_CHECKING:
    from .tls import Tls

PROTOCOL_FUNCTION, LEVEL_OF_STREAMS = "verbena::protocol", 2


def _patience(timeout: float) -> float:
    """Return a timeout that a call may have; a ValueError for any other."""
    if not timeout >= 0:  # nan too
        raise ValueError(f"timeout is {timeout}, not 0 seconds or more")
    return timeout


def _microseconds(seconds: float) -> int:
    """Convert a timeout for a frame's 32-bit field, in which 0 means no limit.

    A timeout that does not fit is sent as 0 too; the client's own timer cancels the call then.
    """
    microseconds = max(1, int(seconds * 1e6)) if seconds > 0 else 0
    return microseconds if microseconds <= 0xFFFFFFFF else 0


class Client:
    """A connection to one server, from construction to close(); also a context manager."""

    def __init__(self, host: str, port: int, timeout: float = 30.0, tls: Optional["Tls"] = None) -> None:
        """Connect to a server.

        `timeout`: seconds for connecting and for each call; 0: no limit.
        `tls`: a verbena_rpc.tls.Tls; without it the connection is in plain text.
        ConnectionError, OSError: there is no server, or it refuses this client.
        ValueError: the timeout is below 0, here and in each call.
        """
        self._timeout = _patience(timeout)
        self._channel = TcpChannel(host, port, timeout or None, tls)
        self._sender = Sender(self._channel)
        self._lock = threading.Lock()  # protects what follows; never held while waiting for I/O
        self._waiting: dict[int, tuple[str, Future[Reply]]] = {}  # with the function's name
        self._streams: dict[int, Stream] = {}
        self._level = 0  # the server's protocol level; 0: it was not asked yet
        self._sequence = 0
        self._closed = ""  # the reason why no call may begin; empty while calls are possible
        self._reader = threading.Thread(target=self._read, name="verbena-rpc", daemon=True)
        self._reader.start()

    def call(self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None) -> Any:
        """Call a function and return its result, None for void.

        `timeout`: seconds, instead of the client's; 0: no limit. The server is asked to cancel a
        call that times out. RpcError: the call failed.
        """
        return self.call_with_attachment(function, *arguments, attachment=attachment, timeout=timeout).value

    def call_with_attachment(
        self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None
    ) -> Reply:
        """Call a function and return its result with the response's attachment."""
        patience = self._timeout if timeout is None else _patience(timeout)
        sequence, future = self._send(function, arguments, attachment, patience)
        try:
            return future.result(patience or None)
        except FutureTimeout:
            self._give_up(sequence, TIMED_OUT)
            raise RpcError(TIMED_OUT, "no response in time") from None

    def send(self, function: str, *arguments: Any, attachment: bytes = b"") -> "Future[Reply]":
        """Send a request and return as soon as it is sent.

        The Future has the reply, or an RpcError, within the client's `timeout`.
        """
        sequence, future = self._send(function, arguments, attachment, self._timeout)
        self._start_timeout(sequence, future, self._timeout)
        return future

    def stream(self, function: str, *arguments: Any, timeout: float | None = None) -> Stream:
        """Call a function that has a stream.

        `timeout`: seconds for the whole stream; None or 0: no limit.
        RpcError: the request could not be sent, or the server has no streams. An error of the
        function itself arrives when the stream is read or finished.
        """
        limit = _patience(timeout or 0)
        self._ask_for_streams()
        body = msgpack.packb(list(arguments)) if arguments else b""
        with self._lock:
            sequence, answer = self._begin(function)
            opened = Stream(self._sender, lambda: self._give_up(sequence, CANCELED), sequence, answer)
            self._streams[sequence] = opened
        with self._forgotten_on_error(sequence):
            function_id, patience_us = frame.function_id(function), _microseconds(limit)
            head = frame.encode(frame.OPEN, sequence, function_id, body, patience_us=patience_us)
            patience = limit or self._timeout or None
            self._sender.send(head + opened.first_grant(), self._raise_if_closed, patience)
        self._start_timeout(sequence, answer, limit)
        return opened

    def close(self) -> None:
        """Fail all calls in flight, close the connection and wait for the threads."""
        self._fail(NOT_CONNECTED, "the client was closed")
        self._channel.close()
        self._sender.close()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self, function: str, arguments: tuple[Any, ...], attachment: bytes, patience: float
    ) -> "tuple[int, Future[Reply]]":
        """Send a request. Return its sequence number and the future of its reply."""
        body = msgpack.packb(list(arguments)) if arguments else b""
        with self._lock:
            sequence, future = self._begin(function)
        with self._forgotten_on_error(sequence):
            function_id, patience_us = frame.function_id(function), _microseconds(patience)
            request = frame.encode(frame.REQUEST, sequence, function_id, body, attachment, patience_us)
            self._sender.send(request, self._raise_if_closed, patience or None)
        return sequence, future

    def _begin(self, function: str) -> "tuple[int, Future[Reply]]":
        """Number a call and enter it into the table; the caller holds the lock."""
        self._raise_if_closed()
        self._sequence = self._sequence % 0xFFFFFFFF + 1
        future: Future[Reply] = Future()
        future.set_running_or_notify_cancel()  # its user cannot cancel it
        self._waiting[self._sequence] = function, future
        return self._sequence, future

    @contextmanager
    def _forgotten_on_error(self, sequence: int) -> Iterator[None]:
        """Send a request in this block: if it fails, also before the first byte, its call ends."""
        try:
            yield
        except BaseException as error:
            with self._lock:
                self._waiting.pop(sequence, None)
                self._streams.pop(sequence, None)
            if isinstance(error, TimeoutError):
                raise RpcError(TIMED_OUT, str(error)) from error
            if isinstance(error, OSError):
                raise RpcError(IO_ERROR, str(error)) from error
            raise

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise RpcError(NOT_CONNECTED, self._closed)

    def _start_timeout(self, sequence: int, answer: "Future[Any]", timeout: float) -> None:
        """Time the call out after `timeout` seconds unless it has ended; 0: no limit."""
        if timeout <= 0:
            return
        timer = threading.Timer(timeout, self._give_up, (sequence, TIMED_OUT))
        timer.daemon = True
        timer.start()
        answer.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, sequence: int, code: int) -> None:
        """Fail a call that is in flight, and ask the server to cancel it."""
        with self._lock:
            waiting = self._waiting.pop(sequence, None)
            self._streams.pop(sequence, None)
        if waiting is not None:
            self._sender.leave(frame.encode(frame.CANCEL, sequence))
            waiting[1].set_exception(
                RpcError(code, "no response in time" if code == TIMED_OUT else "the call was canceled")
            )

    def _ask_for_streams(self) -> None:
        """Raise RpcError if the server has no streams.

        It would end the connection at the first frame of one, so its protocol level is asked first,
        once for each connection.
        """
        if self._level == 0:
            try:
                self._level = self.call(PROTOCOL_FUNCTION)
            except RpcError as error:
                if error.code != NO_SUCH_FUNCTION:
                    raise
                self._level = 1
        if self._level < LEVEL_OF_STREAMS:
            raise RpcError(VERSION, "the server has no streams: it is an older version, or its streams_max is 0")

    def _read(self) -> None:
        """Handle messages until the connection ends: the reader thread."""
        try:
            while True:
                for each in frame.decode(self._channel.receive()):
                    self._handle(each)
        except Exception as error:  # whatever the reason, the waiting callers must learn of the end
            self._fail(IO_ERROR, str(error) or "the connection broke")
            self._channel.close()  # ends the threads that wait in a send

    def _handle(self, each: frame.Frame) -> None:
        if each.kind == frame.GOODBYE:
            with self._lock:
                repeated, self._closed = bool(self._closed), self._closed or "the server is stopping"
            if not repeated:
                self._sender.leave(frame.encode(frame.GOODBYE, 0))
        if each.kind in (frame.ITEM, frame.WINDOW):
            with self._lock:
                stream = self._streams.get(each.sequence)
            if stream is not None:
                stream.take(each)
        if each.kind != frame.RESPONSE:
            return
        with self._lock:
            waiting = self._waiting.pop(each.sequence, None)
            self._streams.pop(each.sequence, None)
        if waiting is None:
            return  # the call has timed out or was canceled
        function, future = waiting
        try:
            value = msgpack.unpackb(each.body, strict_map_key=False) if each.body else None
        except Exception as error:  # whatever the parser raises, only this call fails
            future.set_exception(RpcError(INVALID_RESULT, f"the result cannot be read: {error}"))
            return
        if each.word:
            # The server was sent a number instead of the name.
            name = f": {function}" if each.word == NO_SUCH_FUNCTION else ""
            future.set_exception(RpcError(each.word, f"{value}{name}"))
        else:
            future.set_result(Reply(value, each.attachment))

    def _fail(self, code: int, why: str) -> None:
        """Fail all calls in flight, and let no other begin."""
        with self._lock:
            self._closed = self._closed or why
            waiting, self._waiting = self._waiting, {}
            self._streams = {}
        for _, future in waiting.values():
            future.set_exception(RpcError(code, why))
