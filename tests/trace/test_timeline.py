# SPDX-License-Identifier: Apache-2.0
"""`verbena timeline`: the traces of two programs on one time line, for Chrome's trace viewer."""

import json
import subprocess
from pathlib import Path

from traced import VERBENA, Event, Traced

MESSAGES = 10


def timeline(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([VERBENA, "timeline", *words], capture_output=True, text=True, timeout=20, check=False)


def phase(events: list[Event], name: str, process: int | None = None) -> list[Event]:
    return [event for event in events if event["ph"] == name and process in (None, event["pid"])]


def test_a_pair_of_programs_is_on_one_time_line_with_arrows_for_its_packets(traced: Traced) -> None:
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", str(MESSAGES)])
    both = traced.folder / "both.perfetto.json"
    done = timeline(traced.folder / "server-trace.json", traced.folder / "client-trace.json", "-o", both)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    events = json.loads(both.read_text())["traceEvents"]

    names = [event["args"]["name"] for event in phase(events, "M") if event["name"] == "process_name"]
    assert names == ["ibv_rc_pingpong", "ibv_rc_pingpong"]
    server, client = {event["pid"] for event in events}
    for process in (server, client):
        verbs = [event["name"] for event in phase(events, "X", process) if event["cat"] == "verb"]
        assert verbs.count("ibv_modify_qp") == 3
        requests = [event for event in phase(events, "b", process) if event["name"].endswith(" SEND")]
        ends = {event["id2"]["local"]: event["ts"] for event in phase(events, "e", process)}
        assert len(requests) == MESSAGES
        assert all(ends[event["id2"]["local"]] >= event["ts"] >= 0 for event in requests)
    starts, arrivals = ({event["id"]: event for event in phase(events, name)} for name in "sf")
    assert len(arrivals) >= 2 * MESSAGES
    for number, arrival in arrivals.items():
        assert starts[number]["pid"] != arrival["pid"]
        assert starts[number]["ts"] <= arrival["ts"]


def test_without_a_name_the_time_line_goes_to_standard_output(traced: Traced) -> None:
    traced.runner.run([*traced.words("trace.json"), "ibv_devinfo"])
    done = timeline(traced.folder / "trace.json")
    assert done.returncode == 0
    assert any(event["name"] == "ibv_open_device" for event in json.loads(done.stdout)["traceEvents"])


def test_what_is_no_trace_is_refused_with_what_to_do(traced: Traced, tmp_path: Path) -> None:
    traced.runner.run([*traced.words("trace.txt"), "ibv_devinfo"])
    foreign = tmp_path / "foreign.json"
    foreign.write_text('{"traceEvents": []}\n')
    for path, sentence in (
        (traced.folder / "trace.txt", "this trace is text; write it as JSON lines"),
        (foreign, "there is no event of verbena run --trace"),
        (tmp_path / "missing", "No such file"),
    ):
        done = timeline(path)
        assert (done.returncode, done.stdout) == (1, "")
        assert sentence in done.stderr
    unwritable = timeline(traced.folder / "trace.txt", foreign, "-o", "/no/such/folder/x")
    assert unwritable.returncode == 1
