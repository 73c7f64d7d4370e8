# SPDX-License-Identifier: Apache-2.0
"""docs/limits.md has the numbers that the programs use."""

import re
from pathlib import Path

import pytest
from programs import BUILD, ROOT, Programs

SECTION = re.compile(r"The numbers are those of `(\w+) --print-config`[^|]*?\n\n((?:\|[^\n]*\n)+)")
# Numbers that bound nothing that a peer can fill: sizes and ways of working.
NOT_LIMITS = {
    "coalesce", "engine", "eager_max", "fragments_on_heap", "inline_max", "logical_batch_bytes",
    "logical_channels_max", "logical_frame_bytes", "logical_message_max", "logical_window",
    "memory_region_bytes", "one_sided", "part_bytes", "poll_batch", "poll_us", "receive_depth", "recv_mode",
    "send_units_max", "share_min", "shared_queue_pairs_max", "units_low", "units_start", "watermark",
    "window_first",
}  # fmt: skip


def printed(programs: Programs, program: str) -> dict[str, str]:
    path = program if (BUILD / program).exists() else str(BUILD / "bench" / program)
    ran = programs.run(path, "--print-config")
    assert ran.status == 0, ran
    return dict(line.split(" = ") for line in ran.out.splitlines())


def rows() -> list[tuple[str, str, str]]:
    """Return program, option and default of each row that names an option."""
    found = []
    for program, table in SECTION.findall((Path(ROOT) / "docs" / "limits.md").read_text()):
        for line in table.splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if option := re.fullmatch(r"`(\w+)`", cells[2]):
                found.append((program, option[1], cells[1]))
    return found


@pytest.mark.parametrize("program", ["echo_server", "kv_server", "rpc_test_server"])
def test_the_page_has_the_defaults_of_the_programs(programs: Programs, program: str) -> None:
    config = printed(programs, program)
    listed = {option: default for named, option, default in rows() if named == program}
    assert listed, "the page has no table for this program"
    for option, default in listed.items():
        if option in config:
            number = re.match(r"[\w.]+", default)
            assert number is not None and number[0] == config[option], f"{option}: the program has {config[option]}"


def test_every_limit_of_echo_server_is_on_the_page(programs: Programs) -> None:
    missing = printed(programs, "echo_server").keys() - {option for _, option, _ in rows()} - NOT_LIMITS
    assert not missing, f"docs/limits.md has no row for {sorted(missing)}"


def test_every_limit_of_the_rpc_server_is_on_the_page(programs: Programs) -> None:
    missing = printed(programs, "rpc_test_server").keys() - {option for _, option, _ in rows()} - NOT_LIMITS
    assert not missing, f"docs/limits.md has no row for {sorted(missing)}"
