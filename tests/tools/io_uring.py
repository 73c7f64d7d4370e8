# SPDX-License-Identifier: Apache-2.0
"""Checks whether io_uring may be used here."""

import ctypes
import os

import pytest

SYSCALL = 425  # io_uring_setup, the same number on every architecture

FORBIDDEN = "io_uring_setup:EPERM"  # the rule of many containers, for the fixture `refuse`

libc = ctypes.CDLL(None, use_errno=True)


def needs_io_uring() -> None:
    """Skip the test if this machine refuses io_uring."""
    ring = libc.syscall(SYSCALL, 1, ctypes.create_string_buffer(120))
    if ring < 0:
        pytest.skip(f"this machine refuses io_uring: {os.strerror(ctypes.get_errno())}")
    os.close(ring)
