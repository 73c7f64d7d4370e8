# SPDX-License-Identifier: Apache-2.0
"""Waits on a TCP socket that end: at a deadline, or when the server has vanished or stalls.

An idle connection is probed by the kernel. The kernel does not probe one with unacknowledged bytes,
and gives up on those only after a quarter of an hour, so receive() looks each second as well. The
server's kernel acknowledges also for a server that is stopped: such a server is not taken for dead.

Threads: one thread may receive while another sends.
"""

import select
import socket
import struct
import time

DEAD_AFTER = 8.0  # seconds without an answer of the server's host
STALL_AFTER = 30.0  # seconds without a byte in the middle of a message
_LOOK = 1.0
_PROBES = 4
# Linux's struct tcp_info: 8 bytes, 24 words, and further fields. The place of a word in bytes:
_TCP_INFO_BYTES, _PROBES_OUT, _UNACKED, _LAST_ACK_RECV, _NOT_SENT, _WINDOW = 232, 3, 24, 56, 144, 228


def keep_alive(connected: socket.socket) -> None:
    """Make the kernel probe the connection while it is idle, and break it after DEAD_AFTER."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, int(DEAD_AFTER) - _PROBES)


class Receiver:
    """The receiving side of a socket. `deadline`: monotonic time until which receive() may wait."""

    def __init__(self, connected: socket.socket, deadline: float | None = None) -> None:
        self._socket = connected
        self.deadline = deadline
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)
        self._awaited_since: float | None = None

    def receive(self, size: int, in_message: bool) -> bytes:
        """Return 1 to `size` bytes, or none at the end of the stream.

        `in_message`: the server has sent the beginning of a message.
        TimeoutError: the deadline has passed. ConnectionError: the server has vanished or stalls.
        """
        begun = time.monotonic()
        while True:
            now = time.monotonic()
            left = _LOOK if self.deadline is None else min(_LOOK, self.deadline - now)
            if left <= 0:
                raise TimeoutError("the server did not answer in time")
            if self._readable.poll(left * 1000):
                try:
                    return self._socket.recv(size, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    continue
            self._look_for_answers()
            if in_message and time.monotonic() - begun >= STALL_AFTER:
                raise ConnectionError(f"the server has sent nothing for {STALL_AFTER:.0f} s in the middle of a message")

    def _look_for_answers(self) -> None:
        """Raise ConnectionError if the server's host has not answered for DEAD_AFTER."""
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES).ljust(
            _TCP_INFO_BYTES, b"\0"
        )
        unacked, silent_ms, not_sent, window = (
            struct.unpack_from("I", info, at)[0] for at in (_UNACKED, _LAST_ACK_RECV, _NOT_SENT, _WINDOW)
        )
        now = time.monotonic()
        # A server with a closed window answers probes, which become rare.
        if unacked == 0 and info[_PROBES_OUT] <= 1 and (not_sent == 0 or window == 0):
            self._awaited_since = None
        elif self._awaited_since is None:
            self._awaited_since = now - _LOOK
        # Both times: before these bytes were sent the connection may have been idle for hours.
        elif now - self._awaited_since >= DEAD_AFTER and silent_ms / 1000 >= DEAD_AFTER - _LOOK:
            raise ConnectionError(f"the server's host has not answered for {DEAD_AFTER:.0f} s")


def send_all(connected: socket.socket, data: bytes, deadline: float | None) -> None:
    """Send all bytes.

    TimeoutError: the deadline has passed, and some bytes may have been sent. OSError: the
    connection broke or was closed.
    """
    if connected.fileno() < 0:
        raise ConnectionError("the connection was closed")
    writable = select.poll()
    writable.register(connected, select.POLLOUT)
    view = memoryview(data)
    while view:
        try:
            view = view[connected.send(view, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("the server takes no data") from None
            writable.poll(None if left is None else left * 1000 + 1)
