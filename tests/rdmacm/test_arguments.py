# SPDX-License-Identifier: Apache-2.0
"""rdma_cm refuses an argument that it cannot use, and the id stays as it was."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


def test_a_refused_argument_has_einval_and_the_next_call_works(tmp_path: Path) -> None:
    source = Path(__file__).with_name("arguments.c")
    one_program.examine(source, tmp_path, "127.0.0.1", libraries=("-lrdmacm",))
