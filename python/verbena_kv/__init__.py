# SPDX-License-Identifier: Apache-2.0
"""Use a Verbena key-value store over RDMA or TCP.

    with Store("127.0.0.1") as store:
        store.set("key", b"value")
        value = store.get("key")          # a memoryview, or None; it is freed when you drop it
        store.get_many(["a", "b"])        # all at once

    async with AsyncStore("127.0.0.1") as store:
        a, b = await asyncio.gather(store.get("a"), store.get("b"))    # they leave together

    with store.watch("user:", prefix=True) as watcher:
        for event in watcher:             # Event(kind, key, version)
            ...

Keys are str (UTF-8) or bytes. Values are bytes, or any object with a contiguous buffer. The library
is libverbena-kv.so.0: that of VERBENA_KV_LIBRARY, that of this folder, that of the prefix in which
this folder is, or that of the system.

Store and AsyncStore take Settings(timeout=5.0, transport="tcp", ...) behind the servers.

Threads: a Store may be used by all threads; with `lanes`, threads do not wait for each other. Any
  thread may close it, or a watcher: close() waits for the calls of the others. An AsyncStore
  belongs to its event loop.
Errors: KvError, with a `code` of Result and one sentence; TypeError, ValueError or RuntimeError
  after a mistake of the program.
"""

from .aio import AsyncStore
from .errors import KvError, Result
from .store import Settings, Store, Versioned
from .watch import AsyncWatcher, Event, EventKind, Watcher

__all__ = [
    "AsyncStore",
    "AsyncWatcher",
    "Event",
    "EventKind",
    "KvError",
    "Result",
    "Settings",
    "Store",
    "Versioned",
    "Watcher",
]
