# SPDX-License-Identifier: Apache-2.0
"""The metrics and the health of kv_server, and the dashboard over them.

Prometheus' own parser reads the metrics, and every query of the dashboard returns data.
"""

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

from programs import ROOT, Program, Programs, wait_until
from promql import evaluate, scrape_of
from test_kv import client, serve
from test_kv_disk import SmallDisk
from test_metrics import names, scrape, value

DASHBOARD = ROOT / "deploy" / "dashboards" / "kv.json"
REQUESTS = "verbena_kv_requests_total"


def serve_metrics(programs: Programs, *options: object) -> tuple[Program, str, int]:
    server, where = serve(programs, "--metrics", 0, *options)
    found = wait_until(lambda: re.search(r"metrics at port (\d+)", server.out), "metrics are served", alive=server)
    return server, where, int(found[1])


def health(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_requests_count_by_kind_and_result_with_their_durations(programs: Programs) -> None:
    server, where, port = serve_metrics(programs, "--metrics-json", "m.json", "--memory", "1M")
    large, larger = "x" * 100_000, "y" * 2_000_000
    ran = client(
        programs, where, "SET a 1", "GET a", "GET b", "CAS a 1 2", "DEL a", "DEL a", f"SET c {large}", f"SET d {larger}"
    )
    assert ran.status == 1 and "has another version" in ran.err and "full" in ran.err, ran
    wait_until(lambda: value(scrape(port), "verbena_kv_clients") == 0, "the client has gone", alive=server)
    families = scrape(port)
    for kind, result, count in (
        ("get", "good", 1),
        ("get", "missing", 1),
        ("set", "good", 2),
        ("set", "changed", 1),
        ("set", "full", 1),
        ("del", "good", 1),
        ("del", "missing", 1),
        ("other", "good", 0),
    ):
        assert value(families, REQUESTS, kind=kind, result=result) == count, (kind, result)
    for kind, count in (("get", 2), ("set", 4), ("del", 2)):
        assert value(families, "verbena_kv_request_seconds_count", kind=kind) == count, kind
        assert 0 < value(families, "verbena_kv_request_seconds_sum", kind=kind) < 60, kind
    assert value(families, "verbena_kv_keys") == 1
    assert value(families, "verbena_kv_sets_total", way="read") == 1
    assert value(families, "verbena_kv_lookups_total", result="miss") == 1
    assert value(families, "verbena_kv_clients_peak") == 1
    assert value(families, "verbena_kv_clients_failed_total") == 0
    assert value(families, "verbena_kv_memory_budget_bytes") == 1 << 20
    uses = {sample.labels["use"]: sample.value for sample in families["verbena_kv_memory_bytes"].samples}
    assert uses["values"] >= 100_000 and uses["receive"] > 0 and uses["published"] == 0, uses
    assert sum(uses.values()) < 1 << 30
    for family in families.values():
        assert family.documentation, family.name
    assert not any("journal" in name for name in names(families)), "there is no journal without --data"
    assert server.end().status == 0
    snapshot = json.loads((programs.folder / "m.json").read_text())
    wanted = {"kind": "set", "result": "good"}
    assert [each["value"] for each in snapshot[REQUESTS]["samples"] if each["labels"] == wanted] == [2]


def test_the_journal_counts_its_transactions_and_their_durations(programs: Programs, tmp_path: Path) -> None:
    server, where, port = serve_metrics(programs, "--data", tmp_path / "data")
    assert client(programs, where, *(f"SET key{i} value" for i in range(100)), "GET key1").status == 0
    families = scrape(port)
    commits = value(families, "verbena_kv_journal_commits_total", result="good")
    assert 1 <= commits <= 101
    assert value(families, "verbena_kv_journal_commit_seconds_count") == commits
    assert value(families, "verbena_kv_journal_changes_total") == 100
    assert value(families, "verbena_kv_journal_waiting_changes") == 0
    assert value(families, "verbena_kv_journal_works") == 1
    assert value(families, REQUESTS, kind="set", result="good") == 100
    assert value(families, "verbena_kv_request_seconds_sum", kind="set") > 0
    assert server.end().status == 0


def test_no_thread_serves_metrics_unless_they_are_wanted(programs: Programs) -> None:
    plain, _ = serve(programs)
    measured, _, _ = serve_metrics(programs)

    def serves_pages(server: Program) -> bool:
        return any("civetweb" in each.read_text() for each in Path(f"/proc/{server.pid}/task").glob("*/comm"))

    # A thread gives itself its name after it has started.
    wait_until(lambda: serves_pages(measured), "its thread has its name", alive=measured)
    assert not serves_pages(plain)


def test_a_full_disk_is_reported_and_is_no_reason_to_start_the_server_anew(programs: Programs) -> None:
    disk = SmallDisk(programs, "--metrics", 0)
    found = wait_until(lambda: re.search(r"metrics at port (\d+)", disk.server.out), "metrics", alive=disk.server)
    port = int(found[1])
    assert health(port) == (200, "good\n")
    disk.fill()
    assert client(programs, disk.where, "SET key " + "v" * 50_000).status == 1
    status, text = health(port)
    assert status == 200 and "changes cannot be written to the disk" in text, text
    families = scrape(port)
    assert value(families, "verbena_kv_journal_works") == 0
    assert value(families, "verbena_kv_journal_commits_total", result="failed") >= 1
    assert value(families, REQUESTS, kind="set", result="disk") == 1
    disk.make_room()
    assert client(programs, disk.where, "SET key value").status == 0
    assert health(port) == (200, "good\n")
    assert value(scrape(port), "verbena_kv_journal_works") == 1


def test_every_query_of_the_dashboard_returns_data(programs: Programs, tmp_path: Path) -> None:
    server, where, port = serve_metrics(programs, "--data", tmp_path / "data", "--one-sided", "1M")

    def work(options: tuple[object, ...] = ()) -> None:
        commands = [line for i in range(50) for line in (f"SET key{i} {'v' * (i * 200)}", f"GET key{i}", "GET none")]
        assert client(programs, where, *commands, "DEL key1", options=options).status == 0
        assert client(programs, where, "CAS key2 1 x").status == 1

    work(("--one-sided",))
    earlier = scrape_of(scrape(port).values(), time.monotonic())
    work()
    later = scrape_of(scrape(port).values(), time.monotonic())
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 30
    empty = [query for query in queries if not evaluate(query, earlier, later)]
    assert not empty
    variable = next(each for each in dashboard["templating"]["list"] if each["name"] == "instance")
    asked = re.fullmatch(r"label_values\((\w+), instance\)", variable["query"])
    assert asked and any(name == asked[1] for name, _ in later.samples)
    (gets,) = [found for labels, found in evaluate(queries[0], earlier, later).items() if dict(labels)["kind"] == "get"]
    assert round(gets * (later.seconds - earlier.seconds)) == 100
    assert server.running
