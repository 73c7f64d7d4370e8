# SPDX-License-Identifier: Apache-2.0
"""The events that a program on rdma_cm gets in each scenario (events/) are those of a kernel's
device.

KERNEL has the output of the same program on Soft-RoCE of Linux 6.1 (tests/interop/rxe-vm, server
10.77.0.1, client 10.77.0.2, absent 10.77.0.77, unrouted 192.0.2.1). OURS has the scenarios whose
output differs on the NIC, and why. A test fails if the NIC's output is neither.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from namespaces import ADDRESSES, NamespacePair, NotPermitted  # noqa: E402

NIC = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"
ABSENT, UNROUTED, PORT = "10.77.0.77", "192.0.2.1", "20000"
LIMIT_S = 100

CONNECTED = "rdma_connect ok; ESTABLISHED 0 hello"
ACCEPTED = "CONNECT_REQUEST 0 please; rdma_accept ok; ESTABLISHED 0"
LEFT = "rdma_disconnect ok; DISCONNECTED 0; TIMEWAIT_EXIT 0"
WAS_LEFT = "DISCONNECTED 0; rdma_disconnect ok; rdma_disconnect ok; TIMEWAIT_EXIT 0"

# Scenario: the lines of the client and those of the server.
KERNEL = {
    "no_process": ("rdma_connect ok; REJECTED 8", ""),
    "no_process_datagram": ("rdma_connect ok; UNREACHABLE 1", ""),
    "no_listener": ("rdma_connect ok; REJECTED 8; rdma_connect ok; UNREACHABLE 1", ""),
    # Soft-RoCE's request takes longer than the server's listen().
    "listens_late": (CONNECTED, ACCEPTED),
    "leaves_without_listener": (
        "rdma_connect ok; rdma_disconnect ok; REJECTED 8; rdma_connect ok; rdma_destroy_id ok; "
        "rdma_get_cm_event EAGAIN",
        "",
    ),
    "reject": (
        "rdma_connect ok; REJECTED 28 no thanks",
        "CONNECT_REQUEST 0 please; rdma_reject ok; rdma_destroy_id ok",
    ),
    "port_moves": (
        f"{'rdma_connect ok; REJECTED 28 no; ' * 3}rdma_connect ok; REJECTED 8; "
        "rdma_connect ok; CONNECT_REQUEST 0 please; rdma_reject ok; REJECTED 28 mine",
        f"{'CONNECT_REQUEST 0 please; rdma_reject ok; ' * 3}rdma_destroy_id ok",
    ),
    "listener_gone": ("rdma_connect ok; REJECTED 28", "rdma_destroy_id ok; rdma_get_cm_event EAGAIN"),
    "listener_gone_after_reading": (
        CONNECTED,
        "CONNECT_REQUEST 0 please; rdma_destroy_id ok; rdma_accept ok; ESTABLISHED 0",
    ),
    "client_gives_up": (
        "rdma_connect ok; rdma_destroy_id ok",
        "CONNECT_REQUEST 0 please; no event; create_qp EINVAL; rdma_destroy_id ok; rdma_destroy_id ok",
    ),
    "absent": ("rdma_resolve_addr ok; ADDR_ERROR -110", ""),
    "no_route": ("rdma_resolve_addr ENETUNREACH", ""),
    "foreign_address": ("", "rdma_bind_addr EADDRNOTAVAIL"),
    "port_in_use": (
        "",
        "rdma_bind_addr ok; rdma_bind_addr EADDRINUSE; rdma_bind_addr EADDRNOTAVAIL; rdma_bind_addr ok; "
        "rdma_bind_addr EINVAL; rdma_destroy_id ok; rdma_bind_addr ok; rdma_bind_addr ok",
    ),
    "port_of_another_process": ("rdma_bind_addr EADDRINUSE; rdma_bind_addr EADDRNOTAVAIL; rdma_bind_addr ok", ""),
    "bind_loopback": (
        "rdma_connect ok; REJECTED 28 no",
        "rdma_bind_addr ok; no device; rdma_bind_addr EADDRNOTAVAIL; rdma_bind_addr EADDRNOTAVAIL; rdma_bind_addr ok; "
        "rdma_resolve_addr ok; ADDR_ERROR -19; rdma_listen ok; CONNECT_REQUEST 0 please; rdma_reject ok",
    ),
    # Soft-RoCE resolves the address, but no route.
    "connects_to_the_loopback": (
        "rdma_resolve_addr ok; ADDR_RESOLVED 0; failed: rdma_resolve_route(id, 2000) == 0: No such device; status 1",
        "rdma_bind_addr ok; rdma_listen ok; no event; ended by signal 11",
    ),
    "listen_twice": ("", "rdma_bind_addr ok; rdma_listen ok; rdma_listen EINVAL"),
    "listen_unbound": ("", "rdma_listen ok"),
    "reuse_address": (
        "",
        "rdma_set_option ok; rdma_bind_addr ok; rdma_set_option ok; rdma_bind_addr ok; rdma_bind_addr EADDRINUSE; "
        "rdma_listen EADDRINUSE; rdma_listen EADDRINUSE; rdma_destroy_id ok; rdma_listen ok",
    ),
    "client_disconnects": (f"{CONNECTED}; {LEFT}", f"{ACCEPTED}; {WAS_LEFT}"),
    "server_disconnects": (f"{CONNECTED}; {WAS_LEFT}", f"{ACCEPTED}; {LEFT}"),
    "unanswered_disconnect": (
        f"{CONNECTED}; rdma_disconnect ok; no event; DISCONNECTED 0",
        f"{ACCEPTED}; DISCONNECTED 0; rdma_destroy_id ok",
    ),
    "both_disconnect": (f"{CONNECTED}; {LEFT}", f"{ACCEPTED}; {LEFT}"),
    "destroy_connected": (f"{CONNECTED}; rdma_destroy_id ok", f"{ACCEPTED}; DISCONNECTED 0"),
    "destroy_with_unread": ("rdma_resolve_addr ok; rdma_destroy_id ok; rdma_get_cm_event EAGAIN", ""),
    "migrate": (
        "rdma_resolve_addr ok; rdma_migrate_id ok; ADDR_RESOLVED 0; rdma_get_cm_event EAGAIN; "
        "rdma_resolve_route ok; ROUTE_RESOLVED 0; rdma_get_cm_event EAGAIN",
        "",
    ),
    "no_event": ("rdma_get_cm_event EAGAIN", ""),
    "connect_too_early": (
        "rdma_bind_addr ok; rdma_connect EINVAL; rdma_resolve_route EINVAL; rdma_resolve_addr ok; "
        "ADDR_RESOLVED 0; rdma_connect EINVAL; rdma_resolve_addr EINVAL; rdma_resolve_route ok; "
        "ROUTE_RESOLVED 0; rdma_resolve_route EINVAL; rdma_disconnect EINVAL",
        "",
    ),
    "accept_twice": (CONNECTED, f"{ACCEPTED}; rdma_accept EINVAL; rdma_reject EINVAL"),
    "a_thousand": (
        "1000 times ADDR_RESOLVED; 1000 times ROUTE_RESOLVED; 1000 times ESTABLISHED",
        "1000 times CONNECT_REQUEST; 1000 times ESTABLISHED",
    ),
    "client_killed": (f"{CONNECTED}; ended by signal 9", f"{ACCEPTED}; DISCONNECTED 0"),
    "client_exits": (CONNECTED, f"{ACCEPTED}; DISCONNECTED 0"),
    "listener_killed": ("rdma_connect ok; REJECTED 28", "ended by signal 9"),
    "server_killed": (f"{CONNECTED}; rdma_disconnect ok; DISCONNECTED 0", f"{ACCEPTED}; ended by signal 9"),
    "server_killed_beside_another": (
        f"{CONNECTED}; rdma_disconnect ok; DISCONNECTED 0",
        f"{ACCEPTED}; ended by signal 9",
    ),
    "fork": (
        f"{CONNECTED}; rdma_disconnect ok; DISCONNECTED 0",
        "child 0; CONNECT_REQUEST 0 please; rdma_accept ok; ESTABLISHED 0; child 0; DISCONNECTED 0; "
        "rdma_disconnect ok; rdma_destroy_id ok; rdma_destroy_id ok",
    ),
}

OURS = {
    "connects_to_the_loopback": (
        f"rdma_resolve_addr ok; ADDR_RESOLVED 0; {CONNECTED}",
        f"rdma_bind_addr ok; rdma_listen ok; {ACCEPTED}",
    ),
    # A queue pair for a withdrawn request can still be created on the NIC; only the accept fails.
    "client_gives_up": (
        "rdma_connect ok; rdma_destroy_id ok",
        "CONNECT_REQUEST 0 please; no event; create_qp ok; rdma_accept EINVAL; rdma_destroy_id ok; rdma_destroy_id ok",
    ),
}

# Scenarios in which a side is notified of the other's death, or in which two processes use one
# port. Between two hosts no process answers for one that was killed.
ONE_HOST_ONLY = {
    "connects_to_the_loopback",
    "port_moves",
    "port_of_another_process",
    "client_killed",
    "listener_killed",
}
# Scenarios without a listener: the other host reports it by ICMP (docs/decisions/0013).
WITHOUT_A_SERVER = {"leaves_without_listener", "no_listener", "no_process", "no_process_datagram"}
TWO_SIDES = [name for name, (client, server) in KERNEL.items() if name in WITHOUT_A_SERVER or (client and server)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not NIC.is_file():
        pytest.fail(
            f"there is no {NIC}: run `make build`, or name another build folder in VERBENA_BUILD", pytrace=False
        )
    made = tmp_path_factory.mktemp("rdmacm") / "events"
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    sources = sorted(Path(__file__).with_name("events").glob("*.c"))
    subprocess.run(["cc", *flags, *sources, "-o", made, "-lrdmacm", "-libverbs"], check=True)
    return made


@pytest.fixture(scope="module")
def hosts() -> Iterator[NamespacePair]:
    try:
        pair = NamespacePair(1500)
    except NotPermitted as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    yield pair
    pair.close()


# Scenario: the one line on standard error, because the user's action cannot work. It is printed for
# the client; on one host no other process uses the NIC.
SAID = {
    "absent": f"host {ABSENT} cannot be reached: no host of the local network answers",
    "no_process": f"host {ADDRESSES[0]} has no NIC on UDP port 4791: start the program there",
    "no_process_datagram": f"host {ADDRESSES[0]} has no NIC on UDP port 4791: start the program there",
}


def is_said(scenario: str, client_side: int, errors: str) -> bool:
    if scenario not in SAID or (scenario != "absent" and client_side == 0):
        return errors == ""
    return errors.startswith(f"verbena: error: {SAID[scenario]}") and errors.count("\n") == 1


def check(program: Path, hosts: NamespacePair, scenario: str, client_side: int) -> None:
    where = [f"/proc/{hosts.holder(client_side)}/ns/net"] if client_side != 0 else []
    command = [str(program), scenario, ADDRESSES[0], ADDRESSES[client_side], ABSENT, UNROUTED, PORT, *where]
    # If this test is killed, `timeout` gets SIGTERM, which ends the program and its children.
    limited = [
        "setpriv",
        "--pdeathsig",
        "TERM",
        "timeout",
        "--kill-after=5",
        str(LIMIT_S),
        "env",
        f"LD_PRELOAD={NIC}",
        *command,
    ]
    done = subprocess.run(
        hosts.inside(0, limited), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    said = tuple(
        "; ".join(line.removeprefix(who) for line in lines if line.startswith(who)) for who in ("client: ", "server: ")
    )
    expected = OURS.get(scenario, KERNEL[scenario])
    assert (said, done.returncode) == (expected, 0) and is_said(scenario, client_side, done.stderr), (
        f"\nexpected {expected}\nsaid     {said}\n{done.stderr}"
    )


@pytest.mark.parametrize("scenario", KERNEL)
def test_events_on_one_host_are_the_expected_ones(program: Path, hosts: NamespacePair, scenario: str) -> None:
    check(program, hosts, scenario, 0)


@pytest.mark.parametrize("scenario", [name for name in TWO_SIDES if name not in ONE_HOST_ONLY])
def test_between_two_hosts(program: Path, hosts: NamespacePair, scenario: str) -> None:
    check(program, hosts, scenario, 1)


@pytest.mark.parametrize("scenario", OURS)
def test_each_scenario_listed_in_ours_differs_from_the_kernel(scenario: str) -> None:
    assert OURS[scenario] != KERNEL[scenario]
