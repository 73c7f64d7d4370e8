# SPDX-License-Identifier: Apache-2.0
"""A real etcd for the tests: one process, or a cluster of several, with or without TLS."""

import base64
import json
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from etcd_certificates import Pair
from programs import Program, Programs, wait_until

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def until_listens(url: str, program: Program) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, int(url.rsplit(":", 1)[1]))) == 0

    wait_until(listens, "etcd listens", alive=program)


def start_members(programs: Programs, count: int, *options: object, scheme: str = "http") -> list[tuple[Program, str]]:
    """Start the members of an etcd cluster; return each process with its URL for clients."""
    peers = {f"etcd{i}": f"http://{HOST}:{free_port()}" for i in range(count)}
    everyone = ",".join(f"{name}={url}" for name, url in peers.items())
    members = []
    for name, peer in peers.items():
        url = f"{scheme}://{HOST}:{free_port()}"
        words = ["--name", name, "--data-dir", name, "--listen-client-urls", url, "--advertise-client-urls", url]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", everyone]
        program = programs.start("etcd", *words, "--log-level", "error", "--unsafe-no-fsync", *options)
        members.append((program, url))
    for program, url in members:
        until_listens(url, program)
    return members


def with_tls(pair: Pair) -> list[object]:
    """Return the options of an etcd that shows this certificate."""
    return ["--cert-file", pair.certificate, "--key-file", pair.key]


def prefix_of(urls: list[str]) -> str:
    """Return the prefix that the tests use, below these members."""
    scheme = "etcds" if urls[0].startswith("https") else "etcd"
    return f"{scheme}://{','.join(url.split('//')[1] for url in urls)}/kv"


def start_etcd(programs: Programs) -> Iterator[tuple[Program, str]]:
    """Start an etcd; yield it and the prefix that the tests use."""
    ((program, url),) = start_members(programs, 1)
    yield program, prefix_of([url])


class Gateway:
    """Calls of etcd's JSON interface; with a user, as this user."""

    def __init__(self, url: str, ca: Path | None = None) -> None:
        self._url, self._headers = url, dict[str, str]()
        self._context = None if ca is None else ssl.create_default_context(cafile=ca)

    def call(self, path: str, **words: object) -> dict[str, object]:
        body = json.dumps(words).encode()
        request = urllib.request.Request(f"{self._url}/v3/{path}", body, self._headers)
        with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    def log_in(self, name: str, password: str) -> None:
        self._headers["Authorization"] = str(self.call("auth/authenticate", name=name, password=password)["token"])

    def protect(self, user: str, password: str) -> None:
        """Switch authentication on, with a user who may use the prefix; stay logged in as root."""
        begin, end = (base64.b64encode(key).decode() for key in (b"/kv/", b"/kv0"))
        self.call("auth/user/add", name="root", password="root")
        self.call("auth/role/add", name="root")
        self.call("auth/user/grant", user="root", role="root")
        self.call("auth/user/add", name=user, password=password)
        self.call("auth/role/add", name="servers")
        right = {"permType": "READWRITE", "key": begin, "range_end": end}
        self.call("auth/role/grant", name="servers", perm=right)
        self.call("auth/user/grant", user=user, role="servers")
        self.call("auth/enable")
        self.log_in("root", "root")
