"""The client: numbers requests, and a thread that gives each answer to whom it belongs."""

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import msgpack

from . import frame
from .channel import TcpChannel

if TYPE_CHECKING:
    from .tls import Tls

NOT_CONNECTED, TIMED_OUT, IO_ERROR = 2, 3, 1


class RpcError(Exception):
    """A call's failure: 256 to 65535 are the called program's own codes."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Reply:
    value: Any
    attachment: bytes


class Client:
    def __init__(self, host: str, port: int, timeout: float = 30.0, tls: Optional["Tls"] = None) -> None:
        """Connects. `timeout`: seconds, for connecting and for each call. `tls`: verbena_rpc.tls.Tls; without it in plain text."""
        self._timeout = timeout
        self._channel = TcpChannel(host, port, timeout, tls)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Reply]] = {}
        self._sequence = 0
        self._closed = ""  # why
        self._reader = threading.Thread(target=self._read, name="verbena-rpc", daemon=True)
        self._reader.start()

    def call(self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None) -> Any:
        """The function's result, None for void."""
        return self.call_with_attachment(function, *arguments, attachment=attachment, timeout=timeout).value

    def call_with_attachment(self, function: str, *arguments: Any, attachment: bytes = b"", timeout: float | None = None) -> Reply:
        patience = self._timeout if timeout is None else timeout
        sequence, future = self._send(function, arguments, attachment, patience)
        try:
            return future.result(patience)
        except FutureTimeout:
            with self._lock:
                self._waiting.pop(sequence, None)
                if not self._closed:
                    self._channel.send(frame.encode(frame.CANCEL, sequence))
            raise RpcError(TIMED_OUT, "no answer in time") from None

    def send(self, function: str, *arguments: Any, attachment: bytes = b"") -> "Future[Reply]":
        """Returns when the request is sent."""
        return self._send(function, arguments, attachment, self._timeout)[1]

    def close(self) -> None:
        self._fail(NOT_CONNECTED, "the client was closed")
        self._channel.close()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, function: str, arguments: tuple, attachment: bytes, patience: float) -> "tuple[int, Future[Reply]]":
        body = msgpack.packb(list(arguments)) if arguments else b""
        future: Future[Reply] = Future()
        with self._lock:
            if self._closed:
                raise RpcError(NOT_CONNECTED, self._closed)
            self._sequence = self._sequence % 0xFFFFFFFF + 1
            sequence = self._sequence
            self._waiting[sequence] = future
            patience_us = min(int(patience * 1e6), 0xFFFFFFFF)
            try:
                self._channel.send(frame.encode(frame.REQUEST, sequence, frame.function_id(function), body, attachment, patience_us))
            except OSError as error:
                del self._waiting[sequence]
                raise RpcError(IO_ERROR, str(error)) from error
        return sequence, future

    def _read(self) -> None:
        try:
            while True:
                for each in frame.decode(self._channel.receive()):
                    self._handle(each)
        except (OSError, ValueError) as error:
            self._fail(IO_ERROR, str(error) or "the connection broke")

    def _handle(self, each: frame.Frame) -> None:
        if each.kind == frame.GOODBYE:
            with self._lock:
                self._closed = "the server stops"
                self._channel.send(frame.encode(frame.GOODBYE, 0))
        if each.kind != frame.RESPONSE:
            return
        with self._lock:
            future = self._waiting.pop(each.sequence, None)
        if future is None:
            return  # its caller has given up
        value = msgpack.unpackb(each.body) if each.body else None
        if each.word:
            future.set_exception(RpcError(each.word, str(value)))
        else:
            future.set_result(Reply(value, each.attachment))

    def _fail(self, code: int, why: str) -> None:
        with self._lock:
            self._closed = self._closed or why
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(RpcError(code, why))
