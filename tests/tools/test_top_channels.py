# SPDX-License-Identifier: Apache-2.0
"""`verbena top` shows the credits of channels, and the process for which each waits."""

import json
import os
import re
import signal
import subprocess
from typing import Any

import pytest
from programs import BUILD, LIMIT_S, Program, Programs, stop, wait_until

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def top(*options: str, before: tuple[str, ...] | list[str] = ()) -> str:
    words = [*before, str(BUILD / "verbena"), "top", "--interval", "0.1", "--count", "1", *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout


def processes(**how: Any) -> dict[int, dict[str, Any]]:
    return {each["pid"]: each for each in json.loads(top("--json", **how))["processes"]}


def waiting_for(pid: int) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a process with a channel that waits for credits of this one, and the channel."""
    for process in processes().values():
        for channel in process["channels"]:
            if channel["peer_pid"] == pid and channel["waits_for"] == "credits":
                return process, channel
    return None


@pytest.fixture
def pair(programs: Programs) -> tuple[Program, Program]:
    """A server that grants few credits, and a client with many more messages under way."""
    server = programs.start("echo_server", "--listen", "127.0.0.1", "--port", 0, "--window-max", 2)
    at = wait_until(lambda: re.search(r"listening at (\S+?:\d+)", server.out), "the server listens", alive=server)
    options = ["-c", 1, "-m", 1000, "--window", 1024, "-t", 0, "--duration", 1000, "--timeout-s", 0]
    client = programs.start("performance_test", "-s", at[1], *options)
    wait_until(lambda: processes().get(server.pid, {}).get("channels"), "the client is connected", alive=client)
    return server, client


def stop_while_its_client_waits(server: Program) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Stop the server. If it has received all that the client may have under way, let it go on."""
    stop(server.pid)
    if not (found := waiting_for(server.pid)):
        os.kill(server.pid, signal.SIGCONT)
    return found


def test_a_client_whose_server_receives_nothing_waits_for_its_credits(pair: tuple[Program, Program]) -> None:
    server, client = pair
    process, channel = wait_until(
        lambda: stop_while_its_client_waits(server), "the client waits for credits", alive=client
    )
    assert process["program"] == "performance_test"
    assert channel["peer_program"] == "echo_server"
    assert channel["credits"] == 0
    assert channel["sends_waiting"] > 0
    later = wait_until(
        lambda: (now := waiting_for(server.pid)) and now[1]["waits_ms"] > channel["waits_ms"] and now, "the wait grows"
    )
    assert later[1]["qp"] == channel["qp"]

    page = top()
    assert re.search(rf"^ *{process['pid']} .* credits from {server.pid} echo_server \(\d+ ms\)$", page, re.M), page
    assert re.search(rf"^ *{server.pid} echo_server: no answer about its channels", page, re.M), page

    os.kill(server.pid, signal.SIGCONT)
    wait_until(
        lambda: not (now := waiting_for(server.pid)) or now[1]["waits_ms"] < later[1]["waits_ms"],
        "the server gives credits again",
        alive=client,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start programs of other users")
def test_another_user_sees_no_channels(pair: tuple[Program, Program]) -> None:
    seen = processes(before=NOBODY)
    assert not seen.keys() & {each.pid for each in pair}
    assert not any(each["channels"] for each in seen.values())


def test_a_killed_process_leaves_nothing(pair: tuple[Program, Program]) -> None:
    server, client = pair
    server.kill()
    client.kill()
    seen = processes()
    assert server.pid not in seen
    assert not any(channel["peer_pid"] == server.pid for each in seen.values() for channel in each["channels"])
    assert f" {server.pid} " not in top()
