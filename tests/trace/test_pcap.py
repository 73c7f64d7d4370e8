# SPDX-License-Identifier: Apache-2.0
"""`verbena run --pcap`: tshark reads the packets of shared memory as the RoCEv2 packets that they
stand for, and finds no fault in any header.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from namespaces import ADDRESSES, NamespacePair, NotPermitted
from traced import Traced, free_port, run_pair

MESSAGES = 20

FIELDS = (
    "frame.comment",
    "ip.src",
    "ip.checksum.status",
    "udp.dstport",
    "udp.checksum.status",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.aeth.syndrome",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "_ws.malformed",
    "_ws.expert.severity",
    "frame.len",
)
COMMENT = str(0x100000)  # the severity of the packet's own comment; a fault has a higher one
OPCODES = {"RC SEND_ONLY": 0x04, "RC WRITE_ONLY": 0x0A, "RC READ_REQUEST": 0x0C, "RC ACKNOWLEDGE": 0x11}


def dissect(file: Path) -> list[dict[str, str]]:
    assert shutil.which("tshark"), "tshark is missing: cmake/packages.txt lists it"
    words = ["tshark", "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"]
    for field in FIELDS:
        words += ["-e", field]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


def number(text: str) -> int:
    return int(text, 0)


@pytest.mark.parametrize(
    "program",
    [
        ["ibv_rc_pingpong", "-g", "0", "-n", str(MESSAGES)],
        ["ibv_ud_pingpong", "-g", "0", "-n", str(MESSAGES)],
        ["ib_write_lat", "-n", str(MESSAGES), "-x", "0"],
        ["ib_read_bw", "-n", str(MESSAGES), "-x", "0", "-s", "5000"],
    ],
    ids=lambda program: program[0],
)
def test_tshark_agrees_with_every_header(traced: Traced, monkeypatch: pytest.MonkeyPatch, program: list[str]) -> None:
    monkeypatch.setenv("VERBENA_DIRECT", "0")  # direct operations send no packets
    traced.pair(program, "trace.json", "--pcap", str(traced.folder / "{side}.pcapng"))
    good = "1"
    for side in ("server", "client"):
        packets = dissect(traced.folder / f"{side}.pcapng")
        assert packets
        for packet in packets:
            assert packet["_ws.malformed"] == "" and packet["_ws.expert.severity"] in ("", COMMENT), packet
            assert packet["ip.checksum.status"] == packet["udp.checksum.status"] == good, packet
            assert packet["udp.dstport"] == "4791" and "shared memory" in packet["frame.comment"], packet
            assert program[0] in packet["frame.comment"], packet


def test_packets_between_two_hosts_are_written_too(traced: Traced) -> None:
    try:
        wire = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    port = free_port()
    program = ["ibv_rc_pingpong", "-g", "0", "-n", "5", "-p", str(port)]
    options = ["--pcap", str(traced.folder / "client.pcapng")]
    try:
        run_pair(
            traced.runner,
            [*traced.words("server.txt"), *program],
            [*traced.words("client.txt", *options), *program, ADDRESSES[0]],
            port=port,
            networks=(lambda inner: wire.inside(0, inner), lambda inner: wire.inside(1, inner)),
        ).check()
    finally:
        wire.close()
    packets = dissect(traced.folder / "client.pcapng")
    assert {packet["ip.src"] for packet in packets} == set(ADDRESSES)
    for packet in packets:
        assert packet["_ws.malformed"] == "" and packet["_ws.expert.severity"] in ("", COMMENT), packet
        assert packet["frame.comment"].endswith("UDP"), packet


def test_the_packets_are_those_of_the_trace(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBENA_DIRECT", "0")
    traced.pair(
        ["ib_write_lat", "-n", str(MESSAGES), "-x", "0"], "trace.json", "--pcap", str(traced.folder / "{side}.pcapng")
    )
    for side in ("server", "client"):
        seen = [
            (number(p["infiniband.bth.opcode"]), number(p["infiniband.bth.destqp"]), number(p["infiniband.bth.psn"]))
            for p in dissect(traced.folder / f"{side}.pcapng")
        ]
        events = traced.events(f"{side}-trace.json")
        written = [
            (OPCODES[event["opcode"]], event["peer_qp"] if event["event"] == "sent" else event["qp"], event["psn"])
            for event in events
            if event.get("opcode") in OPCODES
        ]
        assert written
        assert [packet for packet in seen if packet[0] != OPCODES["RC ACKNOWLEDGE"]] == [
            packet for packet in written if packet[0] != OPCODES["RC ACKNOWLEDGE"]
        ]
