"""Who sends on a channel: threads that wait until their message is sent, and those that must not wait."""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from .channel import TcpChannel


class Sender:
    """A server that waits for us to read does not read: whoever reads for us may never wait for it, and leaves its words to a thread."""

    def __init__(self, channel: TcpChannel) -> None:
        self._channel = channel
        self._one_at_a_time = threading.Lock()
        self._left: SimpleQueue[bytes | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, message: bytes, unless: Callable[[], None] = lambda: None) -> None:
        """Returns when it is sent. `unless`: raises if it must not be sent any more. OSError: the connection is broken."""
        with self._one_at_a_time:
            unless()
            try:
                self._channel.send(message)
            except (OSError, ValueError):
                raise
            except BaseException:  # a key was pressed: half a message is of no use
                self._channel.close()
                raise

    def leave(self, message: bytes) -> None:
        """Returns at once. That it is not sent is told by what the channel receives."""
        with self._starting:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_left, name="verbena-rpc-sender", daemon=True)
                self._thread.start()
        self._left.put(message)

    def close(self) -> None:
        """Once the channel is closed: waits for the thread."""
        with self._starting:
            self._closed = True
            thread = self._thread
        self._left.put(None)
        if thread is not None and threading.current_thread() is not thread:
            thread.join()

    def _send_left(self) -> None:
        while (message := self._left.get()) is not None:
            with suppress(OSError):
                self.send(message)
