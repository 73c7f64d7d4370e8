# SPDX-License-Identifier: Apache-2.0
"""SCAN of kv_client."""

from pathlib import Path

import pytest
from programs import ROOT, Programs, wait_until
from test_kv import HOST, build_c, client, lines, serve


def test_scan_prints_every_key_or_those_with_a_prefix(programs: Programs) -> None:
    _, where = serve(programs)
    assert client(programs, where, "SCAN").out == ""
    sets = [f"SET {'user' if i % 10 == 0 else 'job'}:{i} {i}" for i in range(3000)]
    assert client(programs, where, *sets, "DEL job:1").status == 0
    ran = client(programs, where, "SCAN user:", "GET job:2", "SCAN none")
    assert ran.status == 0, ran
    *users, value = ran.out.splitlines()
    assert value == "2" and sorted(users) == sorted(f"user:{i}" for i in range(0, 3000, 10))
    for options in ((), ("--transport", "tcp")):
        ran = client(programs, where, "SCAN", options=options)
        assert ran.status == 0 and len(ran.out.splitlines()) == len(set(ran.out.splitlines())) == 2999, ran


def test_scan_walks_over_all_servers_of_a_list(programs: Programs) -> None:
    servers = [serve(programs) for _ in range(3)]
    where = ",".join(where for _, where in servers)
    assert client(programs, where, *(f"SET key{i} {i}" for i in range(1000))).status == 0
    ran = client(programs, where, "SCAN key")
    assert ran.status == 0 and sorted(ran.out.splitlines()) == sorted(f"key{i}" for i in range(1000)), ran
    each = [len(client(programs, one, "SCAN").out.splitlines()) for _, one in servers]
    assert sum(each) == 1000 and min(each) > 200, each


def test_keys_that_stay_are_not_missed_while_others_are_set(programs: Programs) -> None:
    server, where = serve(programs)
    assert client(programs, where, *(f"SET stay{i} v" for i in range(2000))).status == 0
    writes = lines(programs, "writes.txt", *(f"SET other{i} v" for i in range(30_000)))
    writer = programs.start("kv_client", where, writes)
    walks = 0
    while writer.running or walks == 0:
        ran = programs.run("kv_client", where, lines(programs, "scan.txt", "SCAN stay"))
        assert ran.status == 0 and set(ran.out.splitlines()) == {f"stay{i}" for i in range(2000)}, len(ran.out)
        walks += 1
    assert writer.finish().status == 0 and server.running


def test_scan_goes_on_with_the_next_process_that_has_the_content(programs: Programs, tmp_path: Path) -> None:
    data = tmp_path / "data"
    server, where = serve(programs, "--data", data)
    assert client(programs, where, *(f"SET key{i} v" for i in range(500))).status == 0
    assert server.end().status == 0
    again = programs.start("kv_server", "--listen", HOST, "--port", where.rsplit(":", 1)[1], "--data", data)
    wait_until(lambda: "listening at" in again.out, "kv_server listens", alive=again)
    ran = client(programs, where, "SCAN")
    assert ran.status == 0 and len(set(ran.out.splitlines())) == 500, ran


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
@pytest.mark.parametrize("servers", [1, 3])
def test_the_c_library_walks_over_the_keys_of_all_servers(programs: Programs, servers: int, transport: str) -> None:
    keys = build_c(programs, ROOT / "tests" / "kv" / "keys.c")
    where = ",".join(serve(programs)[1] for _ in range(servers))
    ran = programs.run(keys, where, transport)
    assert ran.status == 0 and ran.out == "all good\n", ran


def test_a_walk_of_the_c_library_reports_the_server_that_cannot_be_asked(programs: Programs) -> None:
    keys = build_c(programs, ROOT / "tests" / "kv" / "keys.c")
    served = [serve(programs) for _ in range(2)]
    where = ",".join(each for _, each in served)
    served[1][0].kill()
    ran = programs.run(keys, where, "rdma")
    assert ran.status == 1 and "could not be reached" in ran.err, ran
