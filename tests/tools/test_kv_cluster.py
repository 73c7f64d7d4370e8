"""Several servers: each has its share of the keys, by a list or by membership in etcd."""

import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator

import pytest
from programs import Program, Programs, wait_until
from test_kv import HOST, client, serve

KEYS = 600


def sets(marker: str) -> list[str]:
    return [f"SET key{i} {marker}{i}" for i in range(KEYS)]


GETS = [f"GET key{i}" for i in range(KEYS)]


def keys_of(server: Program) -> int:
    told = server.end()
    assert told.status == 0, told
    found = re.search(r"(\d+) keys", told.out)
    assert found, told
    return int(found[1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def etcd(programs: Programs) -> Iterator[str]:
    """A real one; the prefix that the tests use."""
    url, peers = (f"http://{HOST}:{free_port()}" for _ in range(2))
    words = ["--name", "one", "--data-dir", "etcd", "--listen-client-urls", url, "--advertise-client-urls", url]
    words += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"one={peers}"]
    program = programs.start("etcd", *words, "--log-level", "error", "--unsafe-no-fsync")
    host, port = url.removeprefix("http://").split(":")

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    wait_until(answers, "etcd listens", alive=program)
    yield f"etcd://{host}:{port}/kv"


def join(programs: Programs, prefix: str, *options: object) -> Program:
    program = programs.start("kv_server", "--listen", HOST, "--port", 0, "--join", prefix, "--join-lease-s", 1, *options)
    wait_until(lambda: "joined" in program.out, "it has joined", alive=program)
    return program


def test_each_server_of_a_list_has_its_share(programs: Programs) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    ran = client(programs, where, *sets("v"), *GETS, "DEL key0", "GET key0")
    assert ran.status == 0, ran
    assert ran.out.splitlines() == [*(f"v{i}" for i in range(KEYS)), ""], ran
    # In another order and by the one name twice: the same places.
    other = ",".join([served[2][1], served[0][1], served[1][1], served[0][1]])
    assert client(programs, other, *GETS).out.splitlines() == ["", *(f"v{i}" for i in range(1, KEYS))]
    shares = [keys_of(server) for server, _ in served]
    assert sum(shares) == KEYS - 1 and min(shares) > KEYS / 6, shares


def test_all_servers_of_a_list_must_be_there_to_begin(programs: Programs) -> None:
    served = [serve(programs) for _ in range(3)]
    served[1][0].kill()
    ran = client(programs, ",".join(each for _, each in served), *sets("v"))
    assert ran.status == 1 and served[1][1] in ran.err, ran


def test_clients_of_a_prefix_find_its_members(programs: Programs, etcd: str) -> None:
    ran = client(programs, etcd, "GET key")
    assert ran.status == 1 and "no server is a member" in ran.err, ran
    servers = [join(programs, etcd) for _ in range(3)]
    ran = client(programs, etcd, *sets("v"), *GETS)
    assert ran.status == 0, ran
    assert ran.out.splitlines() == [f"v{i}" for i in range(KEYS)], ran
    shares = [keys_of(server) for server in servers]
    assert sum(shares) == KEYS and min(shares) > KEYS / 6, shares
    ran = client(programs, etcd, "GET key")
    assert ran.status == 1 and "no server is a member" in ran.err, "who ends in order is no member at once"


def test_a_member_that_crashes_is_none_after_its_lease(programs: Programs, etcd: str) -> None:
    servers = [join(programs, etcd) for _ in range(3)]
    servers[0].process.send_signal(signal.SIGKILL)

    def two_are_left() -> bool:
        ran = client(programs, etcd, *sets("w"), *GETS)
        return ran.status == 0 and ran.out.splitlines() == [f"w{i}" for i in range(KEYS)]

    wait_until(two_are_left, "the keys are shared by the two that are left")
    assert sum(keys_of(server) for server in servers[1:]) == KEYS


def test_a_prefix_that_is_none_and_an_etcd_that_is_not_there_are_said(programs: Programs) -> None:
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", "zookeeper://x/y")
    assert ran.status == 2 and "etcd://HOST" in ran.err, ran
    where = f"etcd://{HOST}:{free_port()}/kv"
    for ran in (client(programs, where, "GET key"), programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", where)):
        assert ran.status == 1 and "etcd at" in ran.err, ran


@pytest.mark.parametrize("way", [(), ("--proto", "rndv", "--rndv", "write"), ("--transport", "tcp")])
def test_every_way_of_travelling_is_shared(programs: Programs, way: tuple[str, ...]) -> None:
    served = [serve(programs) for _ in range(3)]
    where = ",".join(each for _, each in served)
    values = {f"key{i}": str(i) * (i * 500) for i in range(1, 40)}
    ran = client(programs, where, *(f"SET {key} {value}" for key, value in values.items()), *(f"GET {key}" for key in values), options=way)
    assert ran.status == 0 and ran.out.splitlines() == list(values.values()), ran.err
    assert Counter(keys_of(server) > 0 for server, _ in served) == {True: 3}
