# SPDX-License-Identifier: Apache-2.0
"""python_forked.py SERVER TRANSPORT: drops values and closes a store in the child of a fork."""

import gc
import os
import sys

from verbena_kv import Settings, Store

SIZES = (1, 5000, 1 << 20)
SETTINGS = Settings(transport=sys.argv[2])

store = Store(sys.argv[1], SETTINGS)
for size in SIZES:
    store.set(f"{size}", b"v" * size)
values = {size: store.get(f"{size}") for size in SIZES}
copies = {size: bytes(value) for size, value in values.items() if value is not None}

child = os.fork()
if child == 0:
    for size in SIZES:
        del values[size]
    gc.collect()
    store.close()
    with Store(sys.argv[1], SETTINGS) as own:
        assert all(own.get(f"{size}") == copies[size] for size in SIZES)
    os._exit(0)

_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert values == copies and store.get("1") == b"v"
store.close()
print("all good")
