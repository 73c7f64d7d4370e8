# SPDX-License-Identifier: Apache-2.0
"""INFO of kv_client, and `verbena kv info`."""

import json
import re
import signal
import socket
from pathlib import Path

from programs import Programs
from test_kv import HOST, client, serve


def facts_of(text: str) -> dict[str, str]:
    found = dict(line.split(": ", 1) for line in text.splitlines())
    assert len(found) == len(text.splitlines()), "each fact has a name of its own"
    return found


def test_info_asks_each_server_of_a_list(programs: Programs) -> None:
    where = ",".join(serve(programs)[1] for _ in range(3))
    ran = client(programs, where, "INFO")
    names = re.findall(r"^server: (.*)$", ran.out, re.MULTILINE)
    assert ran.status == 0 and names == where.split(","), ran


def test_info_has_the_facts_of_a_server(programs: Programs, tmp_path: Path) -> None:
    server, where = serve(programs, "--data", tmp_path / "data", "--memory", "100M")
    ran = client(programs, where, "SET a 1", "GET a", "GET b", "INFO")
    assert ran.status == 0, ran
    value, missing, text = ran.out.split("\n", 2)
    assert (value, missing) == ("1", "")
    facts = facts_of(text)
    assert facts["server"] == where and facts["keys"] == "1" and facts["durable"] == "yes"
    assert facts["memory_budget_bytes"] == str(100 << 20) and int(facts["memory_receive_bytes"]) > 0
    assert facts["requests_set_good"] == "1" and facts["requests_get_missing"] == "1"
    assert facts["clients"] == "1" and facts["journal_commits"] == "1" and "info" in facts["features"].split()
    version = programs.run("kv_server", "--version").out
    assert facts["version"] in version
    server.end(signal.SIGTERM)


def test_the_tool_prints_the_same_facts_also_as_json(programs: Programs) -> None:
    servers = sorted(serve(programs)[1] for _ in range(2))
    assert client(programs, servers[0], "SET key value").status == 0
    ran = programs.run("verbena", "kv", "info", ",".join(servers))
    assert ran.status == 0, ran
    plain = [facts_of(text) for text in ran.out.split("\n\n")]
    assert [facts["server"] for facts in plain] == servers and plain[0]["keys"] == "1" and plain[1]["keys"] == "0"
    ran = programs.run("verbena", "kv", "info", ",".join(servers), "--json")
    assert ran.status == 0, ran
    objects = json.loads(ran.out)["servers"]
    assert [each["server"] for each in objects] == servers
    assert [each["keys"] for each in objects] == [1, 0] and objects[0]["durable"] == "no"
    assert objects[0]["identity"] == plain[0]["identity"] and set(plain[1]) <= set(objects[1])


def test_the_tool_reports_a_server_that_cannot_be_asked(programs: Programs) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        absent = f"{HOST}:{free.getsockname()[1]}"
    _, where = serve(programs)
    ran = programs.run("verbena", "kv", "info", f"{absent},{where}", "--timeout-ms", 300)
    assert ran.status == 1 and f"server: {where}" in ran.out and absent in ran.err, ran
    ran = programs.run("verbena", "kv", "info", absent, "--timeout-ms", 300)
    assert ran.status == 1 and "no server listens" in ran.err, ran
