# SPDX-License-Identifier: Apache-2.0
"""Objects that a `with` statement closes."""

from types import TracebackType
from typing import Self


class ClosedAtExit:
    """A context manager that is itself the object, and that ends with close()."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
