# SPDX-License-Identifier: Apache-2.0
"""A program learns that few receives are left in a shared receive queue, once for each limit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


def test_the_limit_of_a_shared_receive_queue_gives_one_event(tmp_path: Path) -> None:
    one_program.examine(Path(__file__).with_name("srq_limit.c"), tmp_path)
