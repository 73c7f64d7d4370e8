# SPDX-License-Identifier: Apache-2.0
"""Objects of the library that are closed once, and not while a call uses them."""

import os
import warnings
from collections.abc import Callable
from threading import Lock, get_ident
from types import TracebackType
from typing import Self

from .errors import KvError, Result


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


class Guarded:
    """An address of the library: `with guarded as address` is a call that uses it.

    Threads: thread-safe. The steps are such that a finalizer or a signal handler may close or use
      it between any two of them: a call registers before it looks whether the object is closed, and
      no step waits but the end of close().
    Invariants: once it is closed, the last call that leaves ends the object, or close() if there is
      no call. The object ends once, and only in the process that made it.
    """

    def __init__(self, address: int, end: Callable[[int], object], what: str) -> None:
        """Take the object. `end` frees it; `what` is its name in errors."""
        self._address = address
        self._end = end
        self._what = what
        self._users: list[int] = []  # the thread of each call that is under way
        self._to_end = [address]  # pop() gives it to one thread
        self._ended = Lock()  # held until the object has ended
        self._ended.acquire()
        self._process = os.getpid()
        self.is_closed = False

    def close(self) -> None:
        """Let no other call begin, and end the object; wait for the calls of other threads.

        If this thread itself is in a call, the object ends after the last call.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._end_if_unused()
        if get_ident() not in self._users and self.is_of_this_process():
            with self._ended:
                pass

    def is_of_this_process(self) -> bool:
        """Return whether this is the process that made it, not a child of a fork."""
        return os.getpid() == self._process

    def is_open_here(self) -> bool:
        return not self.is_closed and self.is_of_this_process()

    def __enter__(self) -> int:
        thread = get_ident()
        try:
            self._users.append(thread)
            if self.is_closed:
                raise KvError(Result.INVALID, f"{self._what} is closed")
        except BaseException:  # also Ctrl-C, right behind append()
            self._leave(thread)
            raise
        return self._address

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(get_ident())

    def _leave(self, thread: int) -> None:
        self._users.remove(thread)
        if self.is_closed:
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._users or not self.is_of_this_process():
            return
        try:
            address = self._to_end.pop()
        except IndexError:  # another thread ends it
            return
        try:
            self._end(address)
        finally:
            self._ended.release()


def warn_of_unclosed(store: object) -> None:
    """Warn of a store that was dropped while it was open, as files and sockets of Python do."""
    warnings.warn(f"unclosed {store!r}", ResourceWarning, stacklevel=3, source=store)
