# SPDX-License-Identifier: Apache-2.0
"""A program sets, ignores or blocks SIGSEGV and SIGBUS while its NIC copies to memory that may be
unmapped.

libc has many functions for this: signal() alone is __sysv_signal in a program that is compiled for
strict POSIX. After none of them may a fault in the NIC's own copying reach the program.
"""

import re
import signal
from pathlib import Path

import pytest
from conftest import Nodes, connect

HANDLE = ["sigaction", "__sigaction", "signal", "bsd_signal", "ssignal", "__sysv_signal", "sysv_signal", "sigset"]
IGNORE = ["sigignore"]
BLOCK = ["sighold", "sigblock", "sigsetmask", "sigprocmask", "pthread_sigmask"]

SIZE = 1 << 16


@pytest.mark.parametrize("function", HANDLE + IGNORE + BLOCK)
def test_a_write_to_unmapped_memory_fails_after_the_program_calls(nodes: Nodes, function: str) -> None:
    node = nodes.start().open()
    region, address, key = node.region(SIZE)
    # The first error ends a QP. All QPs exist before the memory is unmapped, because their own
    # memory could replace it.
    writers = [connect(node, node)[0] for _ in range(5)]
    node.ask("handle", function)
    node.ask("unmap", region)
    for at_writer in writers:
        node.ask("write", at_writer, 1, SIZE, address, key)
        assert node.poll(1).counts == {"REM_ACCESS_ERR": 1}


@pytest.mark.parametrize("function", BLOCK)
def test_neither_signal_is_blocked_after_the_program_calls(nodes: Nodes, function: str) -> None:
    # The kernel kills a process whose thread blocks the signal of its own fault.
    node = nodes.start().open()
    node.ask("handle", function)
    status = Path(f"/proc/{node.pid}/status").read_text()
    blocked = int(re.search(r"^SigBlk:\s*(\w+)$", status, re.MULTILINE)[1], 16)
    numbers = {number for number in signal.Signals if blocked >> (number - 1) & 1}
    assert not numbers & {signal.SIGSEGV, signal.SIGBUS}
    assert signal.SIGUSR1 in numbers or function == "sighold"  # which blocks one signal


@pytest.mark.parametrize("function", HANDLE)
def test_the_programs_handler_still_gets_the_programs_own_fault(nodes: Nodes, function: str) -> None:
    node = nodes.start().open()
    region, _, _ = node.region(SIZE)
    node.ask("handle", function)
    node.ask("unmap", region)
    node.send_command("load", region, 0)
    assert nodes.exit_status(node) == 42
