# SPDX-License-Identifier: Apache-2.0
"""Frames, the messages of calls, as bytes and without I/O (docs/rpc.md, "Wire format").

Threads: thread-safe.
Errors: the server is untrusted: decode() raises ValueError for bytes that no server may send.
"""

import struct
from typing import NamedTuple

REQUEST, RESPONSE, CANCEL, PING, PONG, GOODBYE, OPEN, ITEM, WINDOW, DONE = range(1, 11)
HEADER = struct.Struct("<BBBBIIIII")
MAGIC, VERSION = 0x56, 1
NO_BODY, MSGPACK = 0, 1


class Frame(NamedTuple):
    """One frame; its bytes are copies."""

    kind: int
    sequence: int
    word: int  # request, open: the function's id; response: the error code; window: bytes granted
    body: bytes
    attachment: bytes


def function_id(name: str) -> int:
    """Return the id of a function's name: 32-bit FNV-1a."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def encode(
    kind: int, sequence: int, word: int = 0, body: bytes = b"", attachment: bytes = b"", patience_us: int = 0
) -> bytes:
    """Return the bytes of a frame. `patience_us`: how long the caller waits; 0: no limit."""
    serialization = MSGPACK if body else NO_BODY
    head = HEADER.pack(MAGIC, VERSION, kind, serialization, sequence, word, len(body), len(attachment), patience_us)
    return head + body + attachment


def decode(message: bytes) -> list[Frame]:
    """Return all frames of a message. ValueError: no server may send it."""
    frames = []
    at = 0
    while at < len(message):
        if len(message) - at < HEADER.size:
            raise ValueError("a message ends within a frame's header")
        magic, version, kind, serialization, sequence, word, body, attachment, _ = HEADER.unpack_from(message, at)
        if magic != MAGIC or version != VERSION:
            raise ValueError("the server's frames are of another protocol or version")
        if not REQUEST <= kind <= DONE or serialization > MSGPACK:
            raise ValueError("a frame of this kind does not exist")
        at += HEADER.size
        if len(message) - at < body + attachment:
            raise ValueError("a frame is longer than its message")
        frames.append(Frame(kind, sequence, word, message[at : at + body], message[at + body : at + body + attachment]))
        at += body + attachment
    return frames
