# SPDX-License-Identifier: Apache-2.0
"""The outcome of an operation (verbena/kv.h, enum kv_result)."""

from enum import IntEnum


class Result(IntEnum):
    """A result of the library."""

    OK = 0
    MISSING = 1
    CHANGED = 2
    EMPTY_KEY = -1
    LONG_KEY = -2
    LONG_VALUE = -3
    FULL = -4
    UNSUPPORTED = -5
    NO_MEMORY = -6
    LOST = -7
    UNREACHABLE = -8
    INVALID = -9
    UNAVAILABLE = -10
    TIMEOUT = -11
    DISK = -12


class KvError(Exception):
    """The error of an operation: `code` and one sentence, `message`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without calling __init__, which has other arguments; also for subclasses."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__
