"""Checks whether io_uring may be used here, and forbids it to the processes of a test."""

import ctypes
import os
import struct

import pytest

SYSCALL = 425  # io_uring_setup, the same number on every architecture
PERMISSION_DENIED = 1

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000, 0x7FFF0000

libc = ctypes.CDLL(None, use_errno=True)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def forbid_io_uring() -> None:
    """Forbid io_uring to this process and its children, as many containers do.

    Installs a seccomp filter that refuses io_uring_setup. For Popen's preexec_fn.
    """
    lines = [
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, SYSCALL),
        (RETURN, 0, 0, REFUSE | PERMISSION_DENIED),
        (RETURN, 0, 0, ALLOW),
    ]
    program = Filter(len(lines), b"".join(struct.pack("HBBI", *line) for line in lines))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def needs_io_uring() -> None:
    """Skip the test if this machine refuses io_uring."""
    ring = libc.syscall(SYSCALL, 1, ctypes.create_string_buffer(120))
    if ring < 0:
        pytest.skip(f"this machine refuses io_uring: {os.strerror(ctypes.get_errno())}")
    os.close(ring)
