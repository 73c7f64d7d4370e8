# SPDX-License-Identifier: Apache-2.0
"""A message channel over TCP, in plain text or in TLS (docs/channel-protocol.md).

Both ends exchange parameters and proofs first (the set-up); then each message is preceded by its
length in 4 bytes.

Threads: one thread may call send() while another calls receive().
Liveness: a server whose host does not answer for 8 s is lost, idle or not (liveness.py).
Errors: ChannelError or OSError; the channel cannot be used after one.
"""

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import time
from typing import TYPE_CHECKING, Optional, Protocol

from .liveness import Receiver, keep_alive, send_all

if TYPE_CHECKING:
    from .tls import Tls

MESSAGE_MAX = 64 << 20
PARAMETERS_MAX = 512  # bytes of a set-up message
_CLIENT, _SERVER, _TCP = 1, 2, 2
_ROLE, _TRANSPORT, _NONCE, _REFUSAL = 1, 2, 15, 16


class ChannelError(ConnectionError):
    """The connection could not be made, or has ended; the text gives the reason."""


def _parameters(nonce: bytes) -> bytes:
    """Return the client's parameters: a header of 8 bytes, then fields of tag, length and value."""
    fields = bytes([_ROLE, 1, _CLIENT, _TRANSPORT, 1, _TCP, _NONCE, len(nonce)]) + nonce
    return b"VBCH" + struct.pack(">BBH", 1, 1, 8 + len(fields)) + fields


def _fields(message: bytes) -> dict[int, bytes]:
    """Return the values of a parameter message by tag."""
    fields, at = {}, 8
    while at + 2 <= len(message):
        tag, size = message[at], message[at + 1]
        fields[tag] = message[at + 2 : at + 2 + size]
        at += 2 + size
    return fields


def _proof(role: int, key: bytes, setup: bytes, transcript: bytes) -> bytes:
    """Return the proof that an end has seen the same set-up messages in the same TLS session."""
    head = b"VBPF" + bytes([1, role, 0, 0]) + setup
    return head + hmac.new(key, head + transcript, hashlib.sha256).digest()


class _Stream(Protocol):
    """The bytes of a connection, in plain text or in TLS."""

    def sendall(self, data: bytes, deadline: float | None) -> None: ...
    def read(self, size: int, in_message: bool) -> bytes: ...
    def exporter_key(self) -> bytes: ...


class _Clear:
    """A stream that is the socket itself, without TLS."""

    def __init__(self, plain: socket.socket, receiver: Receiver) -> None:
        self._socket = plain
        self._receiver = receiver
        self._ahead = bytearray()

    def sendall(self, data: bytes, deadline: float | None) -> None:
        send_all(self._socket, data, deadline)

    def read(self, size: int, in_message: bool) -> bytes:
        """Return `size` bytes, or fewer if the connection ends before."""
        while len(self._ahead) < size:
            received = self._receiver.receive(max(size - len(self._ahead), 64 << 10), in_message or bool(self._ahead))
            if not received:
                break
            self._ahead += received
        data = bytes(memoryview(self._ahead)[:size])
        del self._ahead[:size]
        return data

    def exporter_key(self) -> bytes:
        """Return the key that stands for a TLS session where there is none."""
        return bytes(32)


class TcpChannel:
    """A connected channel. One thread may send while another receives."""

    def __init__(self, host: str, port: int, timeout: float | None, tls: Optional["Tls"] = None) -> None:
        """Connect and do the set-up. `timeout`: seconds for all of it; None: no limit."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._socket = socket.create_connection((host, port), timeout)
        try:
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(self._socket)
            receiver = Receiver(self._socket, deadline)
            self._stream: _Stream
            if tls is None:
                self._stream = _Clear(self._socket, receiver)
            else:
                from .tls import TlsStream

                self._stream = TlsStream(self._socket, receiver, host, tls)
            self._set_up(deadline)
            receiver.deadline = None
        except BaseException:
            self._socket.close()
            raise

    def _read(self, size: int, in_message: bool = True) -> bytes:
        """Read exactly `size` bytes."""
        data = self._stream.read(size, in_message)
        if len(data) < size:
            raise ChannelError("the server closed the connection")
        return data

    def _set_up(self, deadline: float | None) -> None:
        nonce = os.urandom(16)
        ours = _parameters(nonce)
        self._stream.sendall(ours, deadline)
        head = self._stream.read(8, False)
        # A server in TLS answers plain text with an alert, record type 0x15 (RFC 8446, 5.1).
        if (len(head) == 8 and head[:4] != b"VBCH") or head[:1] == b"\x15":
            raise ChannelError("the server does not speak this protocol in plain text: does it require TLS?")
        if len(head) < 8:
            raise ChannelError("the server closed the connection before it answered")
        length = struct.unpack(">H", head[6:8])[0]
        if not 8 <= length <= PARAMETERS_MAX:
            raise ChannelError("the server's set-up message has an impossible length")
        theirs = head + self._read(length - 8)
        fields = _fields(theirs)
        if _REFUSAL in fields:
            raise ChannelError("the server refused the connection: " + fields[_REFUSAL][2:].decode("ascii", "replace"))
        if _NONCE not in fields:
            raise ChannelError("the server's set-up message has no nonce")
        setup = hashlib.sha256(nonce + fields[_NONCE]).digest()[:8]
        transcript = hashlib.sha256(ours + theirs).digest()
        key = self._stream.exporter_key()
        self.send(_proof(_CLIENT, key, setup, transcript), deadline)
        if not hmac.compare_digest(self.receive(), _proof(_SERVER, key, setup, transcript)):
            raise ChannelError("the server's proof is wrong: the set-up messages were changed on their way")

    def send(self, message: bytes, deadline: float | None = None) -> None:
        """Send one message.

        ValueError: it is above MESSAGE_MAX. TimeoutError: not all of it could be sent until the
        deadline (monotonic time); the channel cannot be used any more.
        """
        if len(message) > MESSAGE_MAX:
            raise ValueError(f"a message has at most {MESSAGE_MAX} bytes")
        self._stream.sendall(struct.pack("<I", len(message)) + message, deadline)

    def receive(self) -> bytes:
        """Wait for the next message and return it."""
        word = struct.unpack("<I", self._read(4, in_message=False))[0]
        if word > MESSAGE_MAX:
            raise ChannelError("the server violated the protocol: a message is larger than 64 MiB")
        return self._read(word)

    def close(self) -> None:
        """Close the connection; a receive() in another thread then fails."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
