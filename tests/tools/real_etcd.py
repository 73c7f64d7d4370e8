# SPDX-License-Identifier: Apache-2.0
"""A real etcd for the tests."""

import socket
from collections.abc import Iterator

from programs import Program, Programs, wait_until

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def start_etcd(programs: Programs) -> Iterator[tuple[Program, str]]:
    """Start an etcd; yield it and the prefix that the tests use."""
    url, peers = (f"http://{HOST}:{free_port()}" for _ in range(2))
    words = ["--name", "one", "--data-dir", "etcd", "--listen-client-urls", url, "--advertise-client-urls", url]
    words += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"one={peers}"]
    program = programs.start("etcd", *words, "--log-level", "error", "--unsafe-no-fsync")
    host, port = url.removeprefix("http://").split(":")

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    wait_until(answers, "etcd listens", alive=program)
    yield program, f"etcd://{host}:{port}/kv"
