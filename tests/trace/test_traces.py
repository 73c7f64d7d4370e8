# SPDX-License-Identifier: Apache-2.0
"""`verbena run --trace` of unmodified programs: each verb, each request from its post to its
completion, each packet.
"""

import contextlib
import signal
import subprocess
from pathlib import Path

import pytest
from traced import VERBENA, Event, Traced, free_port, listens, of_kind

MESSAGES = 10


def verbs(events: list[Event]) -> list[str]:
    return [event["verb"] for event in of_kind(events, "verb")]


def test_pingpong_shows_its_verbs_in_order_and_each_request_from_post_to_poll(traced: Traced) -> None:
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", str(MESSAGES)])
    for side in ("server", "client"):
        events = traced.events(f"{side}-trace.json")
        expected = ["ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_create_qp"]
        assert [verb for verb in verbs(events) if verb in expected] == expected
        assert verbs(events).count("ibv_modify_qp") == 3
        assert not any(event["failed"] for event in events)
        assert [event["time_ns"] for event in events] == sorted(event["time_ns"] for event in events)

        posts, finished = of_kind(events, "post_send"), of_kind(events, "finished")
        assert len(posts) == len(finished) == MESSAGES
        assert {event["opcode"] for event in posts} == {"SEND"}
        for event in finished:
            assert event["ns_since_post"] > 0
            assert event["packets"] == -(-4096 // 1024) or event["packets"] == 1
        polled = of_kind(events, "polled")
        assert len(polled) == 2 * MESSAGES
        assert all(event["ns_since_completion"] >= 0 and event["status"] == "IBV_WC_SUCCESS" for event in polled)
        # One SEND each way for each message, and every one is acknowledged.
        names = {1: "RC SEND_ONLY", 4: "RC SEND_FIRST to LAST"}
        sent = of_kind(events, "sent")
        assert [event["opcode"] for event in sent] == [names[event["packets"]] for event in sent]
        assert len(sent) == MESSAGES
        assert len(of_kind(events, "acknowledgement")) <= MESSAGES


def test_what_one_process_sends_arrives_in_the_other_with_the_same_numbers(traced: Traced) -> None:
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", str(MESSAGES)])
    server, client = (traced.events(f"{side}-trace.json") for side in ("server", "client"))
    for sender, receiver in ((server, client), (client, server)):
        sent = [(event["qp"], event["psn"], event["bytes"]) for event in of_kind(sender, "sent")]
        arrived = [(event["peer_qp"], event["psn"], event["bytes"]) for event in of_kind(receiver, "arrived")]
        assert sent == arrived


@pytest.mark.parametrize(
    ("program", "opcode"),
    [("ib_send_lat", "SEND"), ("ib_write_bw", "RDMA_WRITE"), ("ib_read_lat", "RDMA_READ")],
)
def test_perftest_runs_with_a_trace(traced: Traced, program: str, opcode: str) -> None:
    traced.pair([program, "-n", "100", "-x", "0"])
    posts = of_kind(traced.events("client-trace.json"), "post_send")
    assert len([event for event in posts if event["opcode"] == opcode]) >= 100
    assert all(event["failed"] is False for event in of_kind(traced.events("client-trace.json"), "finished"))


def test_rping_runs_with_a_trace(traced: Traced) -> None:
    port = free_port()
    options = ["-p", str(port), "-C", "3"]
    server = [*traced.words("server.txt"), "rping", "-s", "-a", "127.0.0.1", *options]
    client = [*traced.words("client.txt"), "rping", "-c", "-a", "127.0.0.1", *options]
    # rping's port is none of TCP: the client asks again until the server listens.
    started = traced.runner.start(server)
    ran = traced.runner.run(client)
    for _ in range(20):
        if ran.status == 0:
            break
        ran = traced.runner.run(client)
    assert ran.status == 0, ran
    started[0].wait(20)
    text = traced.text("client.txt")
    assert "ibv_create_qp(" in text and "posts SEND" in text and "polled SEND" in text


def test_a_filter_shows_one_verb_or_only_failures(traced: Traced) -> None:
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", "3"], "trace.json", "--trace-only", "verb=modify_qp")
    assert verbs(traced.events("client-trace.json")) == ["ibv_modify_qp"] * 3
    traced.pair(["ibv_rc_pingpong", "-g", "0", "-n", "3"], "trace.json", "--trace-only", "errors")
    assert traced.events("client-trace.json") == []


def test_a_wrong_word_ends_with_status_2_and_is_named(traced: Traced) -> None:
    for options in (["--trace-only", "errors,qb=1"], ["--trace-size", "1G"], ["--trace-format", "xml"]):
        ran = traced.runner.run([VERBENA, "run", "--trace", *options, "--", "true"])
        assert ran.status == 2, ran
        assert options[1].removeprefix("errors,") in ran.output


def test_the_oldest_events_are_dropped_and_counted(traced: Traced) -> None:
    traced.pair(["ib_send_bw", "-n", "5000", "-x", "0"], "trace.txt", "--trace-size", "1M")
    head = traced.text("client-trace.txt").splitlines()[0]
    assert "; the oldest " in head, head
    assert "polled SEND" in traced.text("client-trace.txt")


def test_the_exit_code_is_the_programs_and_a_program_without_verbs_has_an_empty_trace(traced: Traced) -> None:
    ran = traced.runner.run([*traced.words("trace.txt"), "sh", "-c", "exit 7"])
    assert ran.status == 7
    assert "no process used the NIC" in ran.output
    ran = traced.runner.run([*traced.words("trace.txt"), "no-such-program-here"])
    assert ran.status == 127


@pytest.mark.parametrize("option", ["--trace", "--pcap"])
def test_a_file_that_cannot_be_written_is_refused_before_the_program_runs(traced: Traced, option: str) -> None:
    ran = traced.runner.run([VERBENA, "run", f"{option}=/no/such/folder/file", "--", "echo", "it ran"])
    assert ran.status == 1 and "cannot write /no/such/folder/file: No such file" in ran.output
    assert "it ran" not in ran.output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_the_trace_of_a_program_that_a_signal_ended_is_written(traced: Traced, number: signal.Signals) -> None:
    script = f"ibv_devinfo >/dev/null; kill -{number.value} $$"
    ran = traced.runner.run([*traced.words("trace.txt"), "sh", "-c", script])
    assert ran.status == -number.value
    assert "ibv_open_device(" in traced.text("trace.txt")


def test_a_server_that_is_killed_leaves_its_last_events(traced: Traced) -> None:
    port = free_port()
    words = ["ibv_rc_pingpong", "-g", "0", "-p", str(port)]
    server = [*traced.words("server.txt"), "sh", "-c", f"{' '.join(words)} -n 1000000000 & echo $! >pid; wait"]
    traced.runner.folder = traced.folder
    pair = [*traced.words("client.txt"), *words, "-n", "100", "127.0.0.1"]
    # The client ends after 100 messages; the server waits for more for ever.
    process, _ = traced.runner.start(server)
    while not listens(process.pid, port):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.005)  # a pause between two checks; the server should not end
        assert process.poll() is None
    assert traced.runner.run(pair).status == 0
    subprocess.run(["kill", "-KILL", (traced.folder / "pid").read_text().strip()], check=True)
    process.wait(20)
    assert "polled RECV" in traced.text("server.txt")


def test_without_a_file_the_trace_is_printed_at_the_end(traced: Traced) -> None:
    ran = traced.runner.run([VERBENA, "run", "--trace", "--", "ibv_devinfo"])
    assert ran.status == 0
    assert "# trace of 1 process" in ran.output and "ibv_open_device(device " in ran.output


def test_no_folder_is_left_behind(traced: Traced) -> None:
    before = set(Path("/dev/shm").glob("verbena-trace-*"))
    assert traced.runner.run([*traced.words("trace.txt"), "ibv_devinfo"]).status == 0
    assert set(Path("/dev/shm").glob("verbena-trace-*")) - before == set()
