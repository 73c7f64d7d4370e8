# SPDX-License-Identifier: Apache-2.0
"""Calls the functions that take no object in two libraries, ours and the installed libibverbs, and
prints each call whose results differ.

    same_results.py OUR_LIBRARY INSTALLED_LIBRARY
"""

import ctypes
import random
import sys
from collections.abc import Callable, Iterator

TEXTS = ["ibv_node_type_str", "ibv_port_state_str", "ibv_event_type_str", "ibv_wc_status_str"]
NUMBERS = ["ibv_rate_to_mult", "ibv_rate_to_mbps", "mult_to_ibv_rate", "mbps_to_ibv_rate"]
COPIES = [
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
]
# The results by which rdma-core says that it does not know a value. A newer release, like ours, may
# know it.
UNKNOWN = {"ibv_node_type_str": b"unknown", "ibv_event_type_str": b"unknown", "ibv_wc_status_str": b"unknown"}

Call = tuple[str, Callable[[ctypes.CDLL], object]]


def text(name: str, value: int) -> Call:
    def call(library: ctypes.CDLL) -> object:
        function = library[name]
        function.restype = ctypes.c_char_p
        return function(value)

    return f"{name}({value})", call


def number(name: str, value: int) -> Call:
    return f"{name}({value})", lambda library: library[name](value)


def copied(name: str, source: bytes) -> Call:
    """The call copies between structs of at most 512 bytes; members that it leaves stay 0xa5."""

    def call(library: ctypes.CDLL) -> object:
        target = ctypes.create_string_buffer(b"\xa5" * 512, 512)
        library[name](target, ctypes.create_string_buffer(source, 512))
        return target.raw

    return f"{name}({source.hex()})", call


def sysfs_path() -> Call:
    def call(library: ctypes.CDLL) -> object:
        library.ibv_get_sysfs_path.restype = ctypes.c_char_p
        return library.ibv_get_sysfs_path()

    return "ibv_get_sysfs_path()", call


def read_file(folder: bytes, name: bytes, size: int) -> Call:
    def call(library: ctypes.CDLL) -> object:
        buffer = ctypes.create_string_buffer(size + 1)
        length = library.ibv_read_sysfs_file(folder, name, buffer, size)
        return length, buffer.raw[:length] if length > 0 else b""

    return f"ibv_read_sysfs_file({folder!r}, {name!r}, {size})", call


def calls() -> Iterator[Call]:
    chance = random.Random(1)
    for name in TEXTS:
        yield from (text(name, value) for value in range(-3, 300))
    for name in NUMBERS:
        # Every rate in Mbit/s is a multiple of 2500, of 3125, or one of those below.
        values = {*range(-3, 600), *range(0, 2_000_000, 2500), *range(0, 2_000_000, 3125), 14062, 25781}
        yield from (number(name, value) for value in sorted(values))
    for name in COPIES:
        yield from (copied(name, chance.randbytes(512)) for _ in range(20))
    yield sysfs_path()
    for folder, name in ((b"/proc/self", b"comm"), (b"/proc/sys/kernel", b"ostype"), (b"/proc", b"missing")):
        yield from (read_file(folder, name, size) for size in (1, 5, 6, 7, 8, 64))


def main() -> int:
    # By its absolute path the loader opens the installed library although ours has been opened.
    ours, installed = (ctypes.CDLL(path) for path in sys.argv[1:])
    compared = different = 0
    for name, call in calls():
        expected, actual = call(installed), call(ours)
        compared += 1
        if expected == actual or (expected == UNKNOWN.get(name.split("(")[0]) and actual):
            continue
        different += 1
        print(f"{name}: {actual!r}, and the installed library says {expected!r}")
    print(f"{compared} calls compared, {different} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
