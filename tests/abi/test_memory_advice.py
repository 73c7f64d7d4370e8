# SPDX-License-Identifier: Apache-2.0
"""ibv_advise_mr has the errno values of its manual page."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one_program


def test_an_advice_that_cannot_be_followed_has_the_errno_of_the_manual_page(tmp_path: Path) -> None:
    one_program.examine(Path(__file__).with_name("memory_advice.c"), tmp_path)
