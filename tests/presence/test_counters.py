# SPDX-License-Identifier: Apache-2.0
"""The counters below ports/1/counters are what the process's NIC has sent and received."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NIC, ROOT, Run, compile_c

sys.path.insert(0, str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, INTERFACES, NamespacePair, NotPermitted
from pairs import free_port, listens

# As in the kernel, for a RoCE device (Documentation/ABI/stable/sysfs-class-infiniband).
NAMES = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
]
READ_BY_PERFTEST = [
    "counters/port_xmit_data",
    "counters/port_rcv_data",
    "counters/port_xmit_packets",
    "counters/port_rcv_packets",
    "hw_counters/completer_retry_err",
]
LIMIT_S = 60
MESSAGES, BYTES = 500, 1024
WORDS_A_MESSAGE = (BYTES + 16) // 4  # BTH and ICRC are 16 bytes


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[NamespacePair]:
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


def test_folder_has_the_files_of_a_roce_device(run: Run) -> None:
    folder = "/sys/class/infiniband/vb_lo/ports/1/counters"
    assert run("ls", folder).stdout.split() == NAMES
    values = run("sh", "-c", f"cd {folder} && cat *")
    assert (values.stdout, values.stderr) == ("0\n" * len(NAMES), "")


def test_values_follow_the_traffic_by_each_way_of_reading(run: Run, tmp_path: Path) -> None:
    ran = run(compile_c("traffic", tmp_path))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


Counts = dict[str, int]


def perftest(runtime: Path, places: list[list[str]], devices: list[str], address: str) -> tuple[Counts, Counts]:
    """Run ib_send_bw at two places; return the counters of its server and of its client."""
    environment = ["env", f"LD_PRELOAD={NIC}", f"XDG_RUNTIME_DIR={runtime}", "VERBENA_DEVICES=+vb_lo"]
    port = free_port()
    options = ["-F", "-p", str(port), "-n", str(MESSAGES), "-s", str(BYTES), "-m", "1024"]
    tool = [*environment, "ib_send_bw", *options, "-W", ",".join(READ_BY_PERFTEST), "-d"]
    # Perftest's server waits for ever for a client that has failed.
    server = subprocess.Popen(
        [*places[0], "timeout", str(LIMIT_S), *tool, devices[0]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        while not listens(server.pid, port):
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        client = subprocess.run(
            [*places[1], *tool, devices[1], address],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert client.returncode == 0, client.stdout + client.stderr
        said, _ = server.communicate(timeout=LIMIT_S)
        assert server.returncode == 0, said
    finally:
        server.terminate()  # timeout(1) ends its child, too
        server.wait()
    return counts_in(said), counts_in(client.stdout)


def counts_in(output: str) -> Counts:
    found = {name: int(value) for name, value in re.findall(r"^\s*(\w*counters/\w+)=(\d+)$", output, re.MULTILINE)}
    assert sorted(found) == sorted(READ_BY_PERFTEST), output
    return {name.split("/")[1]: value for name, value in found.items()}


def check_units(side: Counts, sends: str, receives: str) -> None:
    """Compare octets with packets: one direction of `side` has messages, the other ACKs of 20."""
    assert side[f"port_{sends}_data"] == side[f"port_{sends}_packets"] * WORDS_A_MESSAGE
    assert side[f"port_{receives}_data"] == side[f"port_{receives}_packets"] * 5


def test_counters_of_both_ends_agree_on_one_host(runtime: Path) -> None:
    server, client = perftest(runtime, [[], []], ["vb_lo", "vb_lo"], "127.0.0.1")
    check_units(client, "xmit", "rcv")
    check_units(server, "rcv", "xmit")
    assert client["port_xmit_packets"] == server["port_rcv_packets"] == MESSAGES
    # One ACK can stand for many messages.
    assert 0 < client["port_rcv_packets"] == server["port_xmit_packets"] <= MESSAGES
    assert client["completer_retry_err"] == 0


def test_counters_of_both_ends_agree_between_two_hosts(runtime: Path, two_hosts: NamespacePair) -> None:
    before = two_hosts.sent_bytes(1)
    server, client = perftest(
        runtime,
        [two_hosts.inside(side, []) for side in (0, 1)],
        [f"vb_{interface}" for interface in INTERFACES],
        ADDRESSES[0],
    )
    check_units(client, "xmit", "rcv")
    check_units(server, "rcv", "xmit")
    # A message is sent again when its acknowledgement is late.
    assert MESSAGES <= server["port_rcv_packets"] <= client["port_xmit_packets"]
    assert 0 < client["port_rcv_packets"] <= server["port_xmit_packets"]
    # The kernel counts the same packets, with more headers, and perftest's TCP connection.
    assert 4 * client["port_xmit_data"] < two_hosts.sent_bytes(1) - before < 1.3 * 4 * client["port_xmit_data"]
