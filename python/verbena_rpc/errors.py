# SPDX-License-Identifier: Apache-2.0
"""The outcome of a call: a reply, or an error with a code (docs/rpc.md, "Errors")."""

from dataclasses import dataclass
from typing import Any

IO_ERROR, NOT_CONNECTED, TIMED_OUT, CANCELED, NO_SUCH_FUNCTION, VERSION, INVALID_RESULT = 1, 2, 3, 9, 11, 13, 16


class RpcError(Exception):
    """The error of a call: `code` and one sentence, `message`.

    The codes 256 to 65535 belong to the called program.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without calling __init__, which has other arguments; also for subclasses."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


@dataclass(frozen=True)
class Reply:
    """A function's result (None for void) and the response's attachment."""

    value: Any
    attachment: bytes
