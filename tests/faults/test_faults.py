# SPDX-License-Identifier: Apache-2.0
"""`verbena run --faults` of unmodified programs: they meet the faults that were asked for, recover
as on a bad network, and meet the same faults again with the same seed.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from faulted import ADDRESSES, ROOT, VERBENA, Faulted, PairRan, counts

# A local ACK timeout of one second, as a loaded machine may keep a program from running for long.
PATIENT = ["-x", "0", "-u", "18"]
# 200 messages there and back, each of four packets.
PINGPONG = ["ib_send_lat", "-n", "200", "-s", "4096", *PATIENT]
# All retries take half a second.
IMPATIENT = ["ibv_rc_pingpong", "-g", "0"]
LOSSY = ("loss=5%,dup=2%,corrupt=1%,seed=42", "loss=5%,dup=2%,corrupt=1%,seed=43")


def trace_options(faulted: Faulted, name: str) -> list[str]:
    return [f"--trace={faulted.folder}/{{side}}-{name}.json"]


@pytest.mark.parametrize("hosts", [1, 2])
def test_pingpong_recovers_from_loss_duplicates_and_corruption(faulted: Faulted, hosts: int) -> None:
    pair = faulted.pair(PINGPONG, LOSSY, hosts=hosts).check()
    for ran, seed in ((pair.server, 42), (pair.client, 43)):
        found = counts(ran)
        assert found["seed"] == seed
        # 800 requests, and their acknowledgements.
        assert found["packets sent"] > 800
        assert found["lost"] > 10 and found["duplicated"] > 5 and found["corrupted"] > 2, found


def test_the_same_seed_loses_the_same_packets_and_another_one_does_not(faulted: Faulted) -> None:
    for name, seed in (("first", 42), ("again", 42), ("other", 44)):
        faults = f"loss=5%,seed={seed}"
        faulted.pair(PINGPONG, (faults, faults), *trace_options(faulted, name)).check()
    for side in ("server", "client"):
        first, again, other = (faulted.first_losses(f"{side}-{name}.json") for name in ("first", "again", "other"))
        assert len(first) > 10
        assert sorted(first) == sorted(again)
        assert sorted(first) != sorted(other)


def test_an_end_without_faults_works_with_one_that_has_them(faulted: Faulted) -> None:
    for faults in (("", LOSSY[0]), (LOSSY[0], "")):
        pair = faulted.pair(PINGPONG, faults).check()
        assert counts(pair.client if faults[1] else pair.server)["lost"] > 10
        assert "faults of" not in (pair.server if faults[1] else pair.client).output


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_lat"])
def test_perftest_recovers_from_loss_and_reordering(faulted: Faulted, program: str) -> None:
    sizes = [] if "atomic" in program else ["-s", "10000"]
    pair = faulted.pair([program, "-n", "100", *PATIENT, *sizes], ("loss=2%,reorder=5%,seed=1",) * 2).check()
    assert counts(pair.client)["packets sent"] > 100


def test_connections_of_rdma_cm_are_made_under_loss(faulted: Faulted) -> None:
    faults = "loss=5%,dup=5%,seed=5"
    words = [VERBENA, "run", "--faults", faults, "--", "rping", "-C", "20", "-a", ADDRESSES[0], "-p", "7174"]

    def network(inner: list[str]) -> list[str]:
        return faulted.wire.inside(0, inner)

    # The server may not hear of the end: a process that ends does not repeat a lost DREQ.
    faulted.runner.start([*words, "-s"], network)
    ran = faulted.runner.run([*words, "-c"], network)
    for _ in range(20):  # the client asks again until the server listens
        if ran.status == 0:
            break
        ran = faulted.runner.run([*words, "-c"], network)
    assert ran.status == 0, ran
    assert counts(ran)["lost"] > 3


def test_each_packet_is_delayed(faulted: Faulted) -> None:
    program = ["ib_send_lat", "-n", "20", "-s", "4096", *PATIENT]
    pair = faulted.pair(program, ("delay=5ms",) * 2, *trace_options(faulted, "t")).check()
    assert counts(pair.client)["packets sent"] >= 20
    for event in faulted.events("client-t.json"):
        if event["event"] == "finished":
            assert event["ns_since_post"] >= 10_000_000  # there and back


def test_a_slow_line_takes_its_time(faulted: Faulted) -> None:
    # 20 messages of 4 KiB are 82 kB, which take 65 ms at 10 Mbit/s.
    program = ["ib_send_lat", "-n", "20", "-s", "4096", *PATIENT]
    faulted.pair(program, ("rate=10M",) * 2, *trace_options(faulted, "t")).check()
    times = [event["time_ns"] for event in faulted.events("client-t.json") if event["event"] == "post_send"]
    assert times[-1] - times[0] >= 19 * 2 * 3_000_000


def failing(faulted: Faulted, faults: str) -> PairRan:
    return faulted.pair(IMPATIENT, (faults, faults))


def test_a_partition_without_an_end_uses_up_the_retries(faulted: Faulted) -> None:
    pair = failing(faulted, "partition=0s..")
    assert "transport retry counter exceeded" in pair.client.output
    assert counts(pair.client)["lost in a partition"] > 7


def test_a_short_partition_is_survived(faulted: Faulted) -> None:
    # The retries go on long after the window, however late the programs begin.
    faulted.pair(PINGPONG, ("partition=0s..100ms",) * 2).check()


def test_a_request_that_is_refused_as_not_ready_comes_again(faulted: Faulted) -> None:
    pair = faulted.pair(PINGPONG, ("rnr=20%,seed=3",) * 2, *trace_options(faulted, "t")).check()
    refused = counts(pair.server)["answered by RNR NAKs"]
    assert 15 < refused < 90
    waits = [event for event in faulted.events("client-t.json") if event["event"] == "waits"]
    assert sum("no receive posted" in event["line"] for event in waits) >= refused


def test_a_queue_pair_that_breaks_flushes_its_requests(faulted: Faulted) -> None:
    pair = failing(faulted, "qp-error=2%,seed=4")
    assert "Work Request Flushed Error" in pair.client.output + pair.server.output, pair
    assert counts(pair.client).get("broke their queue pair") or counts(pair.server).get("broke their queue pair")


def test_only_the_named_peer_and_queue_pair_meet_the_faults(faulted: Faulted) -> None:
    spared = f"loss=100%;peer={ADDRESSES[0]},loss=0;seed=1"
    assert counts(faulted.pair(PINGPONG, (spared, spared)).check().client).get("lost") is None
    second = "qp=2,loss=100%,seed=1"
    assert counts(faulted.pair(PINGPONG, (second, second)).check().client).get("lost") is None


def test_the_trace_shows_each_fault_that_the_last_line_counts(faulted: Faulted) -> None:
    pair = faulted.pair(PINGPONG, LOSSY, *trace_options(faulted, "t"), "--trace-size", "32M").check()
    for side, ran in (("server", pair.server), ("client", pair.client)):
        events = [event for event in faulted.events(f"{side}-t.json") if event["event"] == "fault"]
        found = counts(ran)
        for name in ("lost", "duplicated", "corrupted"):
            assert sum(event["fault"] == name for event in events) == found[name]
        assert all(event["queue_pair"] == 1 and event["failed"] for event in events)


@pytest.mark.parametrize("word", ["los=1%", "loss=200%", "delay=5", "loss"])
def test_a_wrong_word_ends_with_status_2_and_is_named(faulted: Faulted, word: str) -> None:
    ran = faulted.run(f"dup=1%,{word}", ["echo", "it ran"])
    assert ran.status == 2
    assert f"'{word.split('=')[0] if word.startswith('los=') else word}' " in ran.output
    assert "it ran" not in ran.output


def test_a_wrong_variable_keeps_the_nic_from_starting() -> None:
    environment = os.environ | {"VERBENA_FAULTS": "los=1%"}
    ran = subprocess.run(
        [VERBENA, "run", "--", "ibv_devinfo", "-v"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "VERBENA_FAULTS: 'los' is no word of --faults" in ran.stderr
    assert ran.returncode != 0 or "max_qp:" not in ran.stdout


def test_without_a_seed_a_random_one_is_printed(faulted: Faulted) -> None:
    first, second = (faulted.run("loss=1%", ["ibv_devinfo"]) for _ in range(2))
    assert counts(first)["seed"] != counts(second)["seed"]
    assert f"verbena: --faults seed={counts(first)['seed']}\n" in first.output


def test_the_bug_of_the_manual_is_found_and_mended(faulted: Faulted) -> None:
    program = str(faulted.folder / "counter")
    source: Path = ROOT / "examples" / "faults" / "counter.c"
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, str(source), "-libverbs"], check=True)
    broken = faulted.run("loss=5%,seed=7", [program])
    assert broken.status == 1 and "200 requests, the counter is 2" in broken.output, broken
    mended = faulted.run("loss=5%,seed=7", [program, "remember"])
    assert mended.status == 0 and "the counter is 200" in mended.output, mended
