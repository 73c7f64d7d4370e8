# SPDX-License-Identifier: Apache-2.0
"""A request that is refused has its errno and its reason, and leaves nothing in the queue."""

import errno
import sys
from pathlib import Path

import pytest
from test_reasons import calls

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program

# The log leaves out a line that it has printed within the last second; then no reason is here.
WANTED = {
    "build in RESET": ("EINVAL", "ibv_wr_complete: the queue pair is not in RTS"),
    "build inline too long": ("ENOMEM", "inline data longer than max_inline_data"),
    "build inline nowhere": ("EFAULT", "ibv_wr_complete: the inline data cannot be read"),
    "build segments": ("EINVAL", ""),
    "build length": ("EINVAL", ""),
    "build foreign ah": ("EINVAL", ""),
    "build foreign window": ("EINVAL", ""),
    "build full": ("ENOMEM", ""),
    "post length": ("EINVAL", "the message has 2147483649 bytes"),
    "post without ah": ("EINVAL", "wr.ud.ah is NULL or of another protection domain"),
    "post foreign ah": ("EINVAL", ""),
    "post inline read": ("EINVAL", "IBV_SEND_INLINE is not allowed with READ"),
    "post inline nowhere": ("EFAULT", "ibv_post_send: the inline data cannot be read"),
    "post foreign window": ("EINVAL", "the window cannot be bound to this region"),
    "post full": ("ENOMEM", "the send queue is full: all of its 4 entries are in use"),
    "poll comp_mask": ("EINVAL", "ibv_start_poll: comp_mask 0x1"),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = one_program.build(Path(__file__).with_name("wrong_posts.c"), tmp_path_factory.mktemp("posts"))
    ran = one_program.run(built, VERBENA_LOG="info")
    assert ran.returncode == 0 and ran.stderr.endswith("done\n"), ran
    return ran.stderr


@pytest.mark.parametrize("name", WANTED)
def test_a_refused_request_has_its_errno_and_its_reason(printed: str, name: str) -> None:
    number, lines = calls(printed)[name]
    code, reason = WANTED[name]
    assert errno.errorcode.get(number) == code, lines
    assert reason in "\n".join(lines)


def test_requests_after_refused_ones_complete_and_no_refused_one_does(printed: str) -> None:
    found = calls(printed)
    assert set(found) == set(WANTED)
    of_calls = ("call ", "errno ", "verbena: info: ")
    rest = [line for line in printed.splitlines() if not line.startswith(of_calls)]
    assert rest == ["done"]
