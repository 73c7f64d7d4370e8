#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks of another user of this host on our socket names.

stranger.py squat UID | flood [NAME] | bind NAME | hold NAME

squat UID   binds every plain name of blocks of the user UID, and then every name of the NIC that it
            sees in /proc/net/unix, as soon as it is free. Prints `squatted` after the first part,
            and then `saw NAME` for each name.
flood       connects without end to every name of the NIC that it sees in /proc/net/unix; with NAME,
            to a socket of its own of this name. Prints `floods` after the first connection.
bind NAME   listens at a name. Prints `bound`.
hold NAME   connects 100 times to a name, says nothing, and replaces each connection that is closed.
            Prints `holds` after the first round.

All run until standard input ends.
"""

import contextlib
import errno
import re
import resource
import select
import socket
import sys
from pathlib import Path

NAMES = re.compile(r"@(verbena/\S+)")


def told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def names() -> set[str]:
    return set(NAMES.findall(Path("/proc/self/net/unix").read_text()))


def new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)


def take(name: str, held: dict[str, socket.socket]) -> None:
    squatter = new_socket()
    try:
        squatter.bind(f"\0{name}")
        squatter.listen(1)
        held[name] = squatter
    except OSError as error:
        squatter.close()
        if error.errno != errno.EADDRINUSE:
            raise


def squat(user: str) -> None:
    held: dict[str, socket.socket] = {}
    for block in range(1, 0xFFF):
        take(f"verbena/{user}/qp/{block}", held)
    print("squatted", len(held), flush=True)
    seen: set[str] = set()
    while not told_to_end():
        for name in names() - seen - held.keys():
            seen.add(name)
            print("saw", name, flush=True)
        for name in seen - held.keys():
            take(name, held)


def flood(own: str | None) -> None:
    mine = new_socket()
    if own:
        mine.bind(f"\0{own}")
        mine.listen(128)
    connections = 0
    announced = False
    while not told_to_end():
        for name in [own] if own else names():
            for _ in range(50):
                with contextlib.closing(new_socket()) as each, contextlib.suppress(OSError):
                    each.connect(f"\0{name}")
                    connections += 1
        if connections and not announced:
            announced = True
            print("floods", flush=True)
    print("connections", connections, flush=True)


def bind(name: str) -> None:
    held: dict[str, socket.socket] = {}
    take(name, held)
    assert held, f"{name} is taken"
    print("bound", flush=True)
    sys.stdin.read()


def hold(name: str) -> None:
    held: list[socket.socket] = []
    announced = False
    while not told_to_end():
        closed = select.select(held, [], [], 0)[0]
        for each in closed:
            held.remove(each)
            each.close()
        while len(held) < 100:
            held.append(new_socket())
            with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                held[-1].connect(f"\0{name}")
        if closed and not announced:
            announced = True
            print("holds", flush=True)
        select.select([sys.stdin], [], [], 0.001)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.argv[1] == "squat":
        squat(sys.argv[2])
    elif sys.argv[1] == "bind":
        bind(sys.argv[2])
    elif sys.argv[1] == "hold":
        hold(sys.argv[2])
    else:
        flood(sys.argv[2] if len(sys.argv) > 2 else None)
