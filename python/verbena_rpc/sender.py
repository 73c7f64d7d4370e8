# SPDX-License-Identifier: Apache-2.0
"""The send side of a channel: for threads that wait until their message is sent, and for those that
must not wait.

Threads: thread-safe.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from .channel import TcpChannel


class Sender:
    """Sends messages, one at a time.

    A server that waits until its messages are read does not read itself. So the reader thread must
    not wait for a send, or both ends would wait for each other: it leaves its messages to a thread.
    """

    def __init__(self, channel: TcpChannel) -> None:
        self._channel = channel
        self._send_lock = threading.Lock()
        self._queued: SimpleQueue[bytes | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, message: bytes, unless: Callable[[], None] = lambda: None, timeout: float | None = None) -> None:
        """Send a message and return when it is sent.

        `unless`: called right before; it raises an exception if the message must not be sent.
        `timeout`: seconds; None: no limit. If they pass in the middle of the message, the
        connection is closed.
        OSError: the connection broke; TimeoutError, which is one: the server took too long.
        ValueError: the message is too large.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._send_lock.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError("the server takes no data")
        try:
            unless()
            try:
                self._channel.send(message, deadline)
            except ValueError:
                raise
            except BaseException:  # a timeout, Ctrl-C: half a message makes the channel useless
                self._channel.close()
                raise
        finally:
            self._send_lock.release()

    def leave(self, message: bytes) -> None:
        """Leave a message to the sending thread, and return at once.

        A failure to send shows at the receiving side, where the connection ends.
        """
        with self._starting:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_queued, name="verbena-rpc-sender", daemon=True)
                self._thread.start()
        self._queued.put(message)

    def close(self) -> None:
        """Wait for the sending thread; to be called after the channel is closed."""
        with self._starting:
            self._closed = True
            thread = self._thread
        self._queued.put(None)
        if thread is not None and threading.current_thread() is not thread:
            thread.join()

    def _send_queued(self) -> None:
        while (message := self._queued.get()) is not None:
            with suppress(OSError):
                self.send(message)
