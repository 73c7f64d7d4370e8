# SPDX-License-Identifier: Apache-2.0
"""python_closing.py SERVER: closes stores and watchers that are in use; prints "all good"."""

import os
import signal
import sys
import threading
from collections.abc import Callable

from verbena_kv import KvError, Result, Store, Watcher
from verbena_kv.closing import Guarded

SERVER = sys.argv[1]
PATIENCE_S = 20


class Worker(threading.Thread):
    """A thread that repeats a call until it fails, and keeps the error."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.has_begun = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._call()
                self.has_begun.set()
        except BaseException as error:
            self.error = error

    def finish(self) -> BaseException | None:
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.error


def is_closed_error(error: object) -> bool:
    return isinstance(error, KvError) and error.code == Result.INVALID and "is closed" in error.message


def a_store_that_threads_call() -> None:
    for _ in range(25):
        store = Store(SERVER)
        workers = [Worker(lambda store=store: store.get("key")) for _ in range(4)]
        for worker in workers:
            assert worker.has_begun.wait(PATIENCE_S)
        closers = [threading.Thread(target=store.close, daemon=True) for _ in range(2)]
        for closer in closers:
            closer.start()
        store.close()
        for worker in workers:
            assert is_closed_error(worker.finish()), worker.error
        for closer in closers:
            closer.join(PATIENCE_S)
            assert not closer.is_alive()


def a_watcher_that_a_thread_iterates(close: Callable[[Store, Watcher], None]) -> None:
    with Store(SERVER) as writer:
        for _ in range(25):
            store = Store(SERVER)
            watcher = store.watch("", prefix=True)
            seen = threading.Event()

            def follow(watcher: Watcher = watcher, seen: threading.Event = seen) -> None:
                for _ in watcher:
                    seen.set()
                raise EOFError

            worker = Worker(follow)
            assert seen.wait(PATIENCE_S)
            for i in range(10):
                writer.set(f"key {i}", b"value")
            close(store, watcher)
            assert isinstance(worker.finish(), EOFError), worker.error
            store.close()
            watcher.close()


def a_store_that_its_own_thread_closes_in_a_call() -> None:
    """The handler of a signal runs within a call, as a finalizer may: close() must not wait."""
    for _ in range(25):
        store = Store(SERVER)
        has_begun = threading.Event()
        signal.signal(signal.SIGUSR1, lambda *_, store=store: store.close())

        def interrupt(has_begun: threading.Event = has_begun) -> None:
            if has_begun.wait(PATIENCE_S):
                os.kill(os.getpid(), signal.SIGUSR1)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        try:
            while True:
                store.get("key")
                has_begun.set()
        except KvError as error:
            assert is_closed_error(error)
        interrupter.join()


def an_object_ends_with_its_last_call() -> None:
    ended: list[int] = []
    guarded = Guarded(7, ended.append, "it")
    with guarded as address, guarded:
        guarded.close()
        assert address == 7 and not ended
    assert ended == [7]
    guarded.close()
    assert ended == [7]


a_store_that_threads_call()
a_watcher_that_a_thread_iterates(lambda store, _: store.close())
a_watcher_that_a_thread_iterates(lambda _, watcher: watcher.close())
a_store_that_its_own_thread_closes_in_a_call()
an_object_ends_with_its_last_call()
print("all good")
