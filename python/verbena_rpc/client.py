"""The client: numbers requests, and a thread that gives each answer to whom it belongs."""

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
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


def _microseconds(seconds: float) -> int:
    """As a frame says it: 0 is for ever, and so is what is too long to be said. Our own clock gives up then."""
    microseconds = max(1, int(seconds * 1e6)) if seconds > 0 else 0
    return microseconds if microseconds <= 0xFFFFFFFF else 0


class Client:
    def __init__(self, host: str, port: int, timeout: float = 30.0, tls: Optional["Tls"] = None) -> None:
        """Connects. `timeout`: seconds, for connecting and for each call; 0: none. `tls`: verbena_rpc.tls.Tls; without it in plain text."""
        self._timeout = timeout
        self._channel = TcpChannel(host, port, timeout or None, tls)
        self._sender = Sender(self._channel)
        self._lock = threading.Lock()  # nobody waits while he has it
        self._waiting: dict[int, Future[Reply]] = {}
        self._streams: dict[int, Stream] = {}
        self._level = 0  # of the server; 0: it was not asked
        self._sequence = 0
        self._closed = ""  # why
        self._reader = threading.Thread(target=self._read, name="verbena-rpc", daemon=True)
        self._reader.start()

    def call(self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None) -> Any:
        """The function's result, None for void."""
        return self.call_with_attachment(function, *arguments, attachment=attachment, timeout=timeout).value

    def call_with_attachment(
        self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None
    ) -> Reply:
        patience = self._timeout if timeout is None else timeout
        sequence, future = self._send(function, arguments, attachment, patience)
        try:
            return future.result(patience or None)
        except FutureTimeout:
            self._give_up(sequence, TIMED_OUT)
            raise RpcError(TIMED_OUT, "no answer in time") from None

    def send(self, function: str, *arguments: Any, attachment: bytes = b"") -> "Future[Reply]":
        """Returns when the request is sent. The answer, or the error, is there within the client's `timeout`."""
        sequence, future = self._send(function, arguments, attachment, self._timeout)
        self._end_in_time(sequence, future, self._timeout)
        return future

    def stream(self, function: str, *arguments: Any, timeout: float | None = None) -> Stream:
        """Calls a function that has a stream. `timeout`: seconds, of the whole stream; None: it may take as long as it likes."""
        self._ask_for_streams()
        body = msgpack.packb(list(arguments)) if arguments else b""
        with self._lock:
            sequence, answer = self._begin()
            opened = Stream(self._sender, lambda: self._give_up(sequence, CANCELED), sequence, answer)
            self._streams[sequence] = opened
        head = frame.encode(
            frame.OPEN, sequence, frame.function_id(function), body, patience_us=_microseconds(timeout or 0)
        )
        self._put(sequence, head + opened.first_grant())
        self._end_in_time(sequence, answer, timeout or 0)
        return opened

    def close(self) -> None:
        self._fail(NOT_CONNECTED, "the client was closed")
        self._channel.close()
        self._sender.close()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, function: str, arguments: tuple, attachment: bytes, patience: float) -> "tuple[int, Future[Reply]]":
        body = msgpack.packb(list(arguments)) if arguments else b""
        with self._lock:
            sequence, future = self._begin()
        function_id = frame.function_id(function)
        self._put(
            sequence, frame.encode(frame.REQUEST, sequence, function_id, body, attachment, _microseconds(patience))
        )
        return sequence, future

    def _begin(self) -> "tuple[int, Future[Reply]]":
        self._look_whether_closed()
        self._sequence = self._sequence % 0xFFFFFFFF + 1
        future: Future[Reply] = Future()
        future.set_running_or_notify_cancel()  # only an answer ends it, or the call's timeout
        self._waiting[self._sequence] = future
        return self._sequence, future

    def _put(self, sequence: int, message: bytes) -> None:
        try:
            self._sender.send(message, self._look_whether_closed)
        except BaseException as error:
            with self._lock:
                self._waiting.pop(sequence, None)
                self._streams.pop(sequence, None)
            if isinstance(error, OSError):
                raise RpcError(IO_ERROR, str(error)) from error
            raise

    def _look_whether_closed(self) -> None:
        if self._closed:
            raise RpcError(NOT_CONNECTED, self._closed)

    def _end_in_time(self, sequence: int, answer: "Future[Any]", timeout: float) -> None:
        if timeout <= 0:
            return
        timer = threading.Timer(timeout, self._give_up, (sequence, TIMED_OUT))
        timer.daemon = True
        timer.start()
        answer.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, sequence: int, code: int) -> None:
        with self._lock:
            future = self._waiting.pop(sequence, None)
            self._streams.pop(sequence, None)
        if future is not None:
            self._sender.leave(frame.encode(frame.CANCEL, sequence))
            future.set_exception(RpcError(code, "no answer in time" if code == TIMED_OUT else "canceled"))

    def _ask_for_streams(self) -> None:
        """A server that does not know them would end the connection."""
        if self._level == 0:
            try:
                self._level = self.call(PROTOCOL_FUNCTION)
            except RpcError as error:
                if error.code != NO_SUCH_FUNCTION:
                    raise
                self._level = 1
        if self._level < LEVEL_OF_STREAMS:
            raise RpcError(VERSION, "the server has no streams: it is older than they are, or has them switched off")

    def _read(self) -> None:
        try:
            while True:
                for each in frame.decode(self._channel.receive()):
                    self._handle(each)
        except Exception as error:  # nobody else would tell those who wait
            self._fail(IO_ERROR, str(error) or "the connection broke")

    def _handle(self, each: frame.Frame) -> None:
        if each.kind == frame.GOODBYE:
            with self._lock:
                repeated, self._closed = bool(self._closed), self._closed or "the server stops"
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
            future = self._waiting.pop(each.sequence, None)
            self._streams.pop(each.sequence, None)
        if future is None:
            return  # its caller has given up
        try:
            value = msgpack.unpackb(each.body, strict_map_key=False) if each.body else None
        except Exception as error:  # of this call alone, whatever the parser throws
            future.set_exception(RpcError(INVALID_RESULT, f"the result cannot be read: {error}"))
            return
        if each.word:
            future.set_exception(RpcError(each.word, str(value)))
        else:
            future.set_result(Reply(value, each.attachment))

    def _fail(self, code: int, why: str) -> None:
        with self._lock:
            self._closed = self._closed or why
            waiting, self._waiting = self._waiting, {}
            self._streams = {}
        for future in waiting.values():
            future.set_exception(RpcError(code, why))
