# SPDX-License-Identifier: Apache-2.0
"""Streams: items that the server's function writes and reads while it runs.

Flow control is that of docs/rpc.md, "Wire format": each end grants the other a window in bytes.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgpack

from . import frame
from .errors import CANCELED, Reply, RpcError
from .sender import Sender

WINDOW_MIN, WINDOW = 64 << 10, 256 << 10


class Stream:
    """A stream: iterate over the function's items, write() items for it, finish() for its result.

    As a context manager it cancels the function if the block is left before the function has ended.

    Threads: one thread may read while another writes.
    Errors: RpcError, with the function's error or errc::operation_canceled (9).
    """

    def __init__(self, sender: Sender, give_up: Callable[[], None], sequence: int, answer: "Future[Reply]") -> None:
        self._sender = sender
        self._give_up = give_up
        self._sequence = sequence
        self._answer = answer
        self._changed = threading.Condition()
        self._items: deque[bytes] = deque()
        self._room = WINDOW  # bytes that the server may still send
        self._ungranted = 0  # bytes that were consumed and are not granted again yet
        self._credit = WINDOW_MIN  # bytes that this end may still send
        self._writes_done = self._discards = False
        answer.add_done_callback(lambda _: self._wake())

    def __iter__(self) -> Iterator[Any]:
        """Yield items until the function has ended.

        RpcError: the function or the connection failed; raised after the items before it.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._answer.done())
                if not self._items:
                    break
                body = self._items.popleft()
            self._consumed(body)
            yield msgpack.unpackb(body, strict_map_key=False)
        self._answer.result()

    def write(self, item: Any) -> None:
        """Send an item; wait while the function's window is full.

        RpcError: the function has ended, or writes_done() was called.
        """
        body = msgpack.packb(item)
        with self._changed:
            self._changed.wait_for(lambda: self._credit > 0 or self._answer.done())
            if self._answer.done() or self._writes_done:
                error = self._answer.exception() if self._failed() else None
                raise error or RpcError(CANCELED, "the function has ended, or writes_done() was called")
            self._credit -= frame.HEADER.size + len(body)
        with suppress(OSError):  # the reader thread fails the stream when the connection breaks
            self._sender.send(frame.encode(frame.ITEM, self._sequence, 0, body))

    def writes_done(self) -> None:
        """End the items of this end: the function reads those that were written, then the end."""
        if not self._writes_done:
            self._writes_done = True
            self._sender.leave(frame.encode(frame.DONE, self._sequence))

    def finish(self, timeout: float | None = None) -> Any:
        """Call writes_done(), drop unread items and return the function's result.

        `timeout`: seconds to wait; None: no limit. concurrent.futures.TimeoutError: the function
        has not ended by then. RpcError: the function or the connection failed.
        """
        self.writes_done()
        with self._changed:
            self._discards = True
            unread, self._items = list(self._items), deque()
        for body in unread:
            self._consumed(body)
        return self._answer.result(timeout).value

    def cancel(self) -> None:
        """Ask the server to cancel the function; does nothing if it has ended."""
        if not self._answer.done():
            self._give_up()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def first_grant(self) -> bytes:
        """Return the window frame that is sent behind the frame that opens the stream."""
        return frame.encode(frame.WINDOW, self._sequence, WINDOW - WINDOW_MIN)

    def take(self, each: frame.Frame) -> None:
        """Take an item or a window frame; called by the client's reader thread.

        ValueError: the server sent more than its window allows.
        """
        with self._changed:
            if each.kind == frame.WINDOW:
                self._credit += each.word
            elif self._room <= 0:
                raise ValueError("a stream's flow control was violated: more was sent than its window allows")
            else:
                self._room -= frame.HEADER.size + len(each.body)
                if not self._discards:
                    self._items.append(each.body)
            dropped = each.kind == frame.ITEM and self._discards
            self._changed.notify_all()
        if dropped:
            self._consumed(each.body)

    def _consumed(self, body: bytes) -> None:
        """Account for an item that was read or dropped; grant its bytes again at half a window."""
        with self._changed:
            self._ungranted += frame.HEADER.size + len(body)
            if self._ungranted < WINDOW // 2 or self._answer.done():
                return
            granted, self._ungranted = self._ungranted, 0
            self._room += granted
        self._sender.leave(frame.encode(frame.WINDOW, self._sequence, granted))

    def _failed(self) -> bool:
        return self._answer.done() and self._answer.exception() is not None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
