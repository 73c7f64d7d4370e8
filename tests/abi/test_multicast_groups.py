# SPDX-License-Identifier: Apache-2.0
"""Queue pairs join multicast groups and leave them, as ibv_attach_mcast(3) says."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


def test_a_queue_pair_joins_each_group_once_and_leaves_all(tmp_path: Path) -> None:
    one_program.examine(Path(__file__).with_name("multicast_groups.c"), tmp_path)
