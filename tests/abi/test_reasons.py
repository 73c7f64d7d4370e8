# SPDX-License-Identifier: Apache-2.0
"""Each errno that the NIC returns has its reason: at VERBENA_LOG=info, a refused call prints a line
that names the call. By default nothing is printed.
"""

import os
import subprocess
from pathlib import Path

import pytest
from test_exports import LIBRARY

SOURCE = Path(__file__).with_name("wrong_calls.c")

# A part of the reason, for some calls; every refused call must have one.
REASONS = {
    "ibv_create_qp max_send_wr": "ibv_create_qp: max_send_wr 40000 is above 32768",
    "ibv_modify_qp RTR without DEST_QPN": "ibv_modify_qp: INIT to RTR needs IBV_QP_DEST_QPN",
    "ibv_modify_qp RTR with TIMEOUT": "ibv_modify_qp: INIT to RTR does not allow IBV_QP_TIMEOUT",
    "ibv_modify_qp RESET to RTS": "RESET to RTS is no transition of an RC queue pair",
    "ibv_modify_qp cur_qp_state": "cur_qp_state",
    "ibv_create_cq cqe": "cqe 0 is",
    "ibv_post_send before RTS": "not in RTS",
    "ibv_post_send inline": "max_inline_data",
    "ibv_post_recv full": "full",
    "ibv_import_mr": "ibv_import_mr: this NIC does not support it",
    "rdma_bind_addr": "rdma_bind_addr: ",
    "ibv_dealloc_pd": "ibv_dealloc_pd: ",
    "ibv_create_cq without memory": "ibv_create_cq: no memory",
    "ibv_create_qp without memory": "ibv_create_qp: no memory",
    "open a file of the device to write": "can be read only",
}

# These need a descriptor, and none is left: their reasons are printed by default.
WITHOUT_DESCRIPTORS = {
    "ibv_create_comp_channel without descriptors": "ibv_create_comp_channel: ",
    "ibv_open_device without descriptors": "ibv_open_device: ",
    "rdma_bind_addr without descriptors": "rdma_bind_addr: the process has no descriptor left",
    "rdma_create_event_channel without descriptors": "rdma_create_event_channel: ",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("reasons") / "wrong_calls"
    subprocess.run(["gcc", "-O1", "-Wall", SOURCE, "-o", built, "-libverbs", "-lrdmacm"], check=True, timeout=60)
    return built


def run(program: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "VERBENA_LOG"}
    ran = subprocess.run(
        [program],
        env=inherited | {"LD_PRELOAD": str(LIBRARY)} | environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0 and ran.stderr.endswith("done\n"), ran
    return ran.stderr


def calls(text: str) -> dict[str, tuple[int, list[str]]]:
    """Return the errno and the lines of the NIC for each call."""
    found: dict[str, tuple[int, list[str]]] = {}
    name, lines = "", []
    for line in text.splitlines():
        if line.startswith("call "):
            name, lines = line.removeprefix("call "), []
        elif line.startswith("errno "):
            found[name] = (int(line.removeprefix("errno ")), lines)
            lines = []
        else:
            lines.append(line)
    return found


def test_each_refused_call_has_a_line_with_its_reason(program: Path) -> None:
    found = calls(run(program, VERBENA_LOG="info"))
    steps = {name for name in found if name.startswith("(")}
    assert {found[name][0] for name in steps} == {0}, found
    refused = {name: lines for name, (number, lines) in found.items() if number != 0}
    accepted = set(found) - steps - set(refused)
    assert accepted == set(), f"these wrong calls were accepted: {accepted}"
    assert len(refused) > 40
    for name, lines in refused.items():
        level = "error" if name in WITHOUT_DESCRIPTORS else "info"
        assert any(line.startswith(f"verbena: {level}: ") for line in lines), (name, found[name])
        assert (REASONS | WITHOUT_DESCRIPTORS).get(name, "") in "\n".join(lines), (name, found[name])


def test_by_default_only_a_full_table_of_descriptors_is_printed(program: Path) -> None:
    found = calls(run(program))
    printed = {name: lines for name, (_, lines) in found.items() if lines}
    assert set(printed) == set(WITHOUT_DESCRIPTORS), printed
    for name, lines in printed.items():
        assert len(lines) == 1, (name, lines)
        assert WITHOUT_DESCRIPTORS[name] in lines[0], (name, lines)


def test_a_wrong_level_is_named_with_the_allowed_ones(program: Path) -> None:
    text = run(program, VERBENA_LOG="loud")
    assert "VERBENA_LOG=loud is none of error, warn, info, debug" in text, text
    assert text.count("verbena:") == 1 + len(WITHOUT_DESCRIPTORS), text


def test_a_full_table_of_descriptors_is_named_by_default(program: Path) -> None:
    """The standard descriptors and those that the loader needs are below this limit."""
    ran = subprocess.run(
        ["prlimit", "--nofile=5", program],
        env=os.environ | {"LD_PRELOAD": str(LIBRARY)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 1, ran
    assert "verbena: error: the NIC cannot start: no descriptor is left" in ran.stderr, ran
