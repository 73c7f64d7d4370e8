# SPDX-License-Identifier: Apache-2.0
"""The metrics of echo_server and performance_test.

Prometheus' own parser reads them, and every metric that the dashboard queries exists.
"""

import json
import os
import re
import signal
import urllib.request
from pathlib import Path

import pytest
from programs import ROOT, Program, Programs, wait_until
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

DASHBOARD = ROOT / "deploy" / "dashboards" / "scale.json"


def serve(programs: Programs, *options: object) -> tuple[Program, str, int]:
    program = programs.start("echo_server", "--listen", "127.0.0.1", "--port", 0, "--metrics", 0, *options)
    found = wait_until(lambda: re.search(r"metrics at port (\d+)", program.out), "metrics are served", alive=program)
    where = re.search(r"listening at (127\.0\.0\.1:\d+)", program.out)
    assert where
    return program, where[1], int(found[1])


def scrape(port: int) -> dict[str, Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def names(families: dict[str, Metric]) -> set[str]:
    return {sample.name for family in families.values() for sample in family.samples}


def test_a_server_counts_clients_echoes_and_handshakes(programs: Programs) -> None:
    server, where, port = serve(programs, "--metrics-json", "m.json")
    assert programs.run("performance_test", "-c", 20, "-n", 10, "-t", 0, "-s", where).status == 0
    wait_until(lambda: value(scrape(port), "verbena_clients") == 0, "the clients have gone", alive=server)
    families = scrape(port)
    assert value(families, "verbena_clients_peak") == 20
    assert value(families, "verbena_echoes_total") == 200
    assert value(families, "verbena_handshakes_total", result="agreed") == 20
    assert value(families, "verbena_channels_total", event="opened") == 20
    assert value(families, "verbena_rdma_resources", type="cq") == 1
    assert value(families, "verbena_echo_service_seconds_count") == 200
    buckets = [
        sample.value for sample in families["verbena_echo_service_seconds"].samples if sample.name.endswith("_bucket")
    ]
    assert buckets == sorted(buckets) and buckets[-1] == 200 and len(buckets) == 28
    assert families["verbena_echoes"].type == "counter" and families["verbena_clients"].type == "gauge"
    for family in families.values():
        assert family.documentation, family.name
    # The port counts the packets with their headers, acknowledgements and connection management.
    for direction in ("received", "transmitted"):
        (port_bytes,) = [each.value for each in families[f"verbena_port_data_{direction}_bytes"].samples]
        assert port_bytes > value(families, f"verbena_data_{direction}_bytes_total") > 0
    assert server.end().status == 0
    snapshot = json.loads((programs.folder / "m.json").read_text())
    assert snapshot["verbena_echoes_total"]["samples"][0]["value"] == 200
    assert snapshot["verbena_echo_service_seconds"]["samples"][0]["count"] == 200
    # The snapshot also contains the counts of threads that have ended by then.
    ours = [family for family in families.values() if family.name.startswith("verbena_")]
    assert {family.name + "_total" * (family.type == "counter") for family in ours} <= set(snapshot)
    opened = {sample["labels"]["event"]: sample["value"] for sample in snapshot["verbena_channels_total"]["samples"]}
    assert opened["opened"] == 20, opened


def test_metrics_are_served_to_this_host_only_by_default(programs: Programs) -> None:
    server, _, port = serve(programs)
    sockets = Path(f"/proc/{server.pid}/net/tcp").read_text()
    assert f"0100007F:{port:04X}" in sockets and f"00000000:{port:04X}" not in sockets


def test_a_metrics_port_in_use_is_reported(programs: Programs) -> None:
    _, _, port = serve(programs)
    ran = programs.run("echo_server", "--listen", "127.0.0.1", "--port", 0, "--metrics", port)
    assert ran.status == 1 and "in use" in ran.err, ran


def test_errors_are_counted_by_status_and_failed_handshakes_by_cause(programs: Programs) -> None:
    server, where, port = serve(programs)
    clients = programs.start("performance_test", "-c", 5, "-n", 1_000_000, "-t", 1, "-s", where)
    wait_until(lambda: value(scrape(port), "verbena_clients") == 5, "the clients are connected", alive=clients)
    os.killpg(clients.pid, signal.SIGKILL)
    clients.finish()
    assert programs.run("performance_test", "-c", 2, "-n", 1, "-s", where, "--insecure").status == 1
    lost = wait_until(
        lambda: (families := scrape(port)) and value(families, "verbena_clients_lost_total") == 5 and families,
        "all are lost",
        alive=server,
    )
    by_status = {sample.labels["status"]: sample.value for sample in lost["verbena_channel_errors"].samples}
    assert sum(by_status.values()) == 5 and "transport retry counter exceeded" in by_status, by_status
    by_cause = {sample.labels["cause"]: sample.value for sample in lost["verbena_handshake_failures"].samples}
    assert sum(by_cause.values()) >= 2 and "other" not in by_cause, by_cause


def test_a_channel_that_breaks_without_a_completion_is_counted_as_lost(programs: Programs) -> None:
    server, where, port = serve(programs)
    clients = programs.start("performance_test", "-c", 3, "-n", 1_000_000, "-t", 1, "--transport", "tcp", "-s", where)
    wait_until(lambda: value(scrape(port), "verbena_clients") == 3, "the clients are connected", alive=clients)
    os.killpg(clients.pid, signal.SIGKILL)
    clients.finish()
    wait_until(lambda: value(scrape(port), "verbena_clients") == 0, "the clients have gone", alive=server)
    assert value(scrape(port), "verbena_channel_errors_total", status="lost") == 3


@pytest.mark.parametrize(("mode", "shared_queues"), [("srq", 1), ("per_connection", 0)])
def test_verbs_objects_are_counted(programs: Programs, mode: str, shared_queues: int) -> None:
    server, where, port = serve(programs, "--recv-mode", mode, "--max-clients", 10)
    clients = programs.start("performance_test", "-c", 3, "-n", 1_000_000, "-t", 1, "-s", where)
    wait_until(lambda: value(scrape(port), "verbena_echoes_total") > 0, "echoes come", alive=clients)
    families = scrape(port)
    objects = {kind: value(families, "verbena_rdma_resources", type=kind) for kind in ("qp", "cq", "srq", "pd", "mr")}
    assert objects.pop("mr") >= 1
    assert objects == {"qp": 3, "cq": 1, "srq": shared_queues, "pd": 1}
    assert server.running


def names_of_a_run(programs: Programs, options: tuple[object, ...], share: tuple[object, ...]) -> set[str]:
    """The names of all metrics of a server and its clients.

    They are read during a run, and again after clients were killed and others refused.
    """
    server, where, port = serve(programs, *options)
    clients = programs.start(
        "performance_test", "-c", 20, "-n", 1_000_000, "-t", 1, "-s", where, "--metrics", 0, *share
    )
    own = wait_until(lambda: re.search(r"metrics at port (\d+)", clients.out), "metrics are served", alive=clients)
    theirs = int(own[1])
    wait_until(lambda: value(scrape(theirs), "verbena_round_trip_seconds_count") > 0, "echoes come", alive=clients)
    found = names(scrape(theirs)) | names(scrape(port))
    os.killpg(clients.pid, signal.SIGKILL)
    clients.finish()
    programs.run("performance_test", "-c", 1, "-n", 1, "-s", where, "--insecure")
    wait_until(lambda: "verbena_channel_errors_total" in names(scrape(port)), "the server notices", alive=server)
    found |= names(scrape(port))
    assert server.end().status == 0
    return found


def test_every_query_of_the_dashboard_names_an_existing_metric(programs: Programs) -> None:
    found = names_of_a_run(programs, (), ()) | names_of_a_run(programs, ("--logical", 100), ("--qps", 2))
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"\b(?:verbena|process)_\w+", query)}
    assert len(panels) > 10 and len(asked) > 20
    assert asked <= found, asked - found
