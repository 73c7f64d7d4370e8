# SPDX-License-Identifier: Apache-2.0
"""The store as a cache: `--evict`, and keys with a time to live."""

import re
import sys

import pytest
from programs import ROOT, Programs, Ran, wait_until
from test_kv import HOST, build_c, client, serve
from test_kv_memory import own_bytes

sys.path.append(str(ROOT / "tests" / "kv"))
import s3fifo_rates

RATES = ROOT / "lib" / "kv" / "state" / "eviction_rates_test.cc"
SETS = 1_000_000


def expected_rates() -> list[tuple[str, int, int]]:
    """Return the rows of libCacheSim: trace, items, hits."""
    rows = re.findall(r'\{"(\w+)", (\d+), (\d+)\}', RATES.read_text())
    return [(trace, int(items), int(hits)) for trace, items, hits in rows]


def ended(ran: Ran) -> dict[str, int]:
    """Return the figures of the server's last lines by their names."""
    found = re.search(r"(\d+) hits, (\d+) misses; (\d+) keys evicted, (\d+) expired", ran.out)
    assert ran.status == 0 and found, ran
    return dict(zip(("hits", "misses", "evicted", "expired"), map(int, found.groups()), strict=True))


def test_a_cache_takes_every_set_and_keeps_what_is_read(programs: Programs) -> None:
    server, where = serve(programs, "--memory", "1M", "--evict")
    assert "a full store evicts keys" in server.out
    many = [line for i in range(300) for line in (f"SET key{i} {'v' * 20_000}", "GET hot")]
    ran = client(programs, where, "SET hot value", *many, "GET key0", "GET key299", options=("--outstanding", 1))
    assert ran.status == 0, ran.err
    *hot, first, last = ran.out.splitlines()
    assert set(hot) == {"value"} and first == "" and last == "v" * 20_000
    counts = ended(server.end())
    assert counts["evicted"] > 200 and counts["hits"] == 301 and counts["misses"] == 1, counts


def test_values_by_rendezvous_find_room_too(programs: Programs) -> None:
    _, where = serve(programs, "--memory", "4M", "--evict")
    for form in ("read", "write"):
        lines = [f"SET key{i} {'v' * 200_000}" for i in range(60)]
        ran = client(programs, where, *lines, "GET key59", options=("--proto", "rndv", "--rndv", form))
        assert ran.status == 0 and ran.out == "v" * 200_000 + "\n", ran.err


def test_a_cache_cannot_keep_every_key(programs: Programs) -> None:
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--evict", "--data", "store")
    assert ran.status == 2 and "--evict" in ran.err and "--data" in ran.err, ran
    assert not (programs.folder / "store").exists()


def test_memory_does_not_grow_with_the_keys_that_a_cache_has_seen(programs: Programs) -> None:
    program = build_c(programs, ROOT / "tests" / "kv" / "distinct.c")
    server, where = serve(programs, "--memory", "32M", "--evict")
    seen = []
    for first, count in ((0, SETS), (SETS, 4 * SETS)):
        assert programs.run(program, where, first, count, limit_s=50).status == 0
        seen.append(own_bytes(server.pid))
    assert abs(seen[1] - seen[0]) < seen[0] * 0.02, seen
    counts = ended(server.end())
    assert counts["evicted"] > 4 * SETS, counts


def test_the_hit_rate_of_a_server_is_that_of_libcachesim(programs: Programs) -> None:
    """10180K have room for about 10,000 keys of 1 KiB each, with their ghosts and the table."""
    program = build_c(programs, ROOT / "tests" / "kv" / "zipf.c", "-lm")
    server, where = serve(programs, "--memory", "10180K", "--evict")
    ran = programs.run(program, where, limit_s=55)
    assert ran.status == 0, ran
    last = server.end()
    keys = re.search(r"(\d+) keys, \d+ bytes", last.out)
    assert keys and abs(int(keys[1]) - 10_000) < 200, last
    expected = next(hits for trace, items, hits in expected_rates() if (trace, items) == ("zipf", 10_000))
    assert abs(int(ran.out) - expected) < expected * 0.01, (ran.out, expected)


WAYS = [("--transport", "tcp"), ("--proto", "eager"), ("--proto", "rndv"), ("--proto", "rndv", "--rndv", "write")]


@pytest.mark.parametrize("way", WAYS)
def test_a_key_is_missing_after_its_time(programs: Programs, way: tuple[str, ...]) -> None:
    server, where = serve(programs)
    ran = client(
        programs, where, "SETEX brief 50ms a value", "SETEX long 1h one", "SETEX again 1ms x", "SET again y",
        "GET long", "GET again", options=way,
    )  # fmt: skip
    assert ran.status == 0 and ran.out == "one\ny\n", ran
    wait_until(lambda: client(programs, where, "GET brief", options=way).out == "\n", "it is missing", alive=server)
    ran = client(programs, where, "GET long", "GET again", "DEL brief", "CAS brief 0 b", "GET brief", options=way)
    assert ran.status == 0 and [*ran.out.splitlines()[:2], ran.out.splitlines()[-1]] == ["one", "y", "b"], ran
    assert ended(server.end())["expired"] <= 2


def test_the_time_of_a_published_key_ends_for_one_sided_clients_too(programs: Programs) -> None:
    server, where = serve(programs, "--one-sided", "1M")
    one_sided = ("--one-sided", "--stats")
    ran = client(programs, where, "SETEX key 1500ms value", "GET key", "GET key", options=one_sided)
    assert ran.out == "value\nvalue\n" and "1 one-sided" in ran.err, ran
    wait_until(lambda: client(programs, where, "GET key", options=one_sided).out == "\n", "it is missing", alive=server)
    assert client(programs, where, "GET key").out == "\n"


def test_times_go_on_while_no_server_runs(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    ran = client(programs, where, "SETEX brief 20ms a", "SETEX long 1h b", "SET endless c")
    assert ran.status == 0, ran
    server.kill()

    def values_and_keys_of_the_next_server() -> tuple[str, int]:
        again, where = serve(programs, "--data", "store")
        out = client(programs, where, "GET brief", "GET long", "GET endless").out
        keys = re.search(r"(\d+) keys, \d+ bytes", again.end().out)
        assert keys
        return out, int(keys[1])

    wait_until(lambda: values_and_keys_of_the_next_server() == ("\nb\nc\n", 2), "only the first one has ended")


def test_a_folder_without_times_is_read_as_before(programs: Programs) -> None:
    server, where = serve(programs, "--data", "store")
    assert client(programs, where, "SET key value").status == 0
    server.kill()
    _, where = serve(programs, "--data", "store")
    assert client(programs, where, "GET key").out == "value\n"


@pytest.mark.parametrize("line", ["SETEX key value", "SETEX key 0s value", "SETEX key 50d value", "SETEX key 10s"])
def test_a_time_that_cannot_be_is_refused(programs: Programs, line: str) -> None:
    _, where = serve(programs)
    ran = client(programs, where, line, "GET key")
    assert ran.status == 1 and "SETEX needs a key, a time from 1ms to 49d and a value" in ran.err, ran
    assert ran.out == "\n"


def test_the_expected_hit_rates_are_for_all_traces() -> None:
    assert [row[:2] for row in expected_rates()] == [
        (trace, items) for trace in s3fifo_rates.TRACES for items in s3fifo_rates.SIZES
    ]


@pytest.mark.parametrize("row", expected_rates())
def test_the_expected_hit_rates_are_those_of_libcachesim(row: tuple[str, int, int]) -> None:
    pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    trace, items, hits = row
    assert s3fifo_rates.hits(trace, items) == hits
