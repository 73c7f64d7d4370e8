"""What a call gives: a reply, or an error with a code."""

from dataclasses import dataclass
from typing import Any

IO_ERROR, NOT_CONNECTED, TIMED_OUT, CANCELED, NO_SUCH_FUNCTION, VERSION, INVALID_RESULT = 1, 2, 3, 9, 11, 13, 16


class RpcError(Exception):
    """A call's failure: 256 to 65535 are the called program's own codes."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Reply:
    value: Any
    attachment: bytes
