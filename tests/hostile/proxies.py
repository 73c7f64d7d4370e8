# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that treats the bytes of each connection in one bad way.

Each connection is carried by two threads, one for each direction. All of them end with the proxy.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

TO_SERVER, TO_CLIENT = 0, 1
DIRECTIONS = {TO_SERVER: "to the server", TO_CLIENT: "to the client"}


@dataclass
class Harm:
    """The harm that the proxy does to the bytes of one direction.

    `flip`: the byte at this place gets this bit inverted. `cut`: the connection ends before this
    byte. `hole`: from this byte on nothing is passed on, and the connection stays open. `pause_s`:
    each byte is passed on alone, after this pause. `instead`: these bytes are sent instead of as
    many of the first ones. `connections`: only this number of connections, the first ones, come to
    harm.
    """

    direction: int = TO_SERVER
    flip: tuple[int, int] | None = None
    cut: int | None = None
    hole: int | None = None
    pause_s: float = 0.0
    instead: bytes = b""
    connections: int | None = None


@dataclass
class Recorded:
    """The bytes of a connection before any harm, by direction."""

    sent: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))


class Proxy:
    """Listens at `port` of 127.0.0.1 and connects to the server's port for each client."""

    def __init__(self, server_port: int, harm: Harm | None = None) -> None:
        self._server_port = server_port
        self._harm = harm or Harm()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.recorded: list[Recorded] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._spawn(self._accept)

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                recorded = Recorded()
                with self._lock:
                    self._sockets += [client, server]
                    self.recorded.append(recorded)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._spawn(self._carry, TO_SERVER, client, server, recorded)
                self._spawn(self._carry, TO_CLIENT, server, client, recorded)

    def _carry(self, direction: int, source: socket.socket, sink: socket.socket, recorded: Recorded) -> None:
        spared = all(recorded is not each for each in self.recorded[: self._harm.connections])
        harm = Harm() if spared or self._harm.direction != direction else self._harm
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                at = len(recorded.sent[direction])
                recorded.sent[direction].extend(received)
                if not self._pass_on(bytearray(received), at, sink, harm):
                    self._end(source, sink)
                    return
            if harm.hole is None:
                sink.shutdown(socket.SHUT_WR)

    def _pass_on(self, data: bytearray, at: int, sink: socket.socket, harm: Harm) -> bool:
        """Send what is left of the bytes, the first of which is number `at`; False at the cut."""
        for number, byte in enumerate(harm.instead[at : at + len(data)]):
            data[number] = byte
        if harm.flip is not None and at <= harm.flip[0] < at + len(data):
            data[harm.flip[0] - at] ^= 1 << harm.flip[1]
        end = min((place for place in (harm.cut, harm.hole) if place is not None), default=at + len(data))
        part = data[: max(0, end - at)]
        if harm.pause_s > 0:
            for number in range(len(part)):
                sink.sendall(part[number : number + 1])
                time.sleep(harm.pause_s)
        else:
            sink.sendall(part)
        return harm.cut is None or at + len(data) <= harm.cut

    @staticmethod
    def _end(*sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def replay(port: int, recorded: bytes, limit_s: float) -> bytes:
    """Send the bytes of an earlier client, and return the server's answer until it hangs up."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), limit_s) as again:
        again.sendall(recorded)
        with contextlib.suppress(ConnectionError):
            while received := again.recv(65536):
                answer += received
    return answer
