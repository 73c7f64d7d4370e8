# SPDX-License-Identifier: Apache-2.0
"""An rdma_cm id's multicast groups: the host is a member of each once, and of none at the end."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


def test_the_host_is_a_member_of_a_group_while_a_queue_pair_is(tmp_path: Path) -> None:
    source = Path(__file__).with_name("groups.c")
    one_program.examine(source, tmp_path, "127.0.0.1", libraries=("-lrdmacm",))
