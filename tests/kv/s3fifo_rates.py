#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""s3fifo_rates.py: print the hits of libCacheSim's S3-FIFO on the traces of eviction_rates_test.cc.

The test in lib/kv/state has these numbers, and compares its own with them. libCacheSim is the
simulator of the authors of S3-FIFO: `pip install --no-deps libcachesim==0.3.5 numpy`.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

KEYS, REQUESTS = 100_000, 1_000_000
SCAN_LENGTH, SCAN_EVERY = 1000, 2000
SIZES = (2_000, 10_000, 30_000)  # items
MEAN_BYTES = 2100  # the mean of the items of sized()
MASK = (1 << 64) - 1

Trace = Iterator[tuple[int, int]]  # key and bytes


def numbers(seed: int) -> Iterator[int]:
    """SplitMix64, as in base/random.h."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def zipf() -> Trace:
    """Keys whose popularity falls with the power 0.99 of their rank."""
    sums = list(itertools.accumulate(rank**-0.99 for rank in range(1, KEYS + 1)))
    for number in numbers(1):
        yield bisect.bisect_right(sums, (number >> 11) * 2.0**-53 * sums[-1]), 1


def scans() -> Trace:
    """The same, and now and then a scan of keys that never come again."""
    popular, choices = zipf(), numbers(2)
    scanned = KEYS + 1
    while True:
        if next(choices) % SCAN_EVERY == 0:
            yield from ((key, 1) for key in range(scanned, scanned + SCAN_LENGTH))
            scanned += SCAN_LENGTH
        yield next(popular)


def sized() -> Trace:
    """Zipf with items of 100 to 4099 bytes."""
    return ((key, 100 + next(numbers(key)) % 4000) for key, _ in zipf())


TRACES = {"zipf": zipf, "scans": scans, "sized": sized}


def hits(trace: str, items: int) -> int:
    from libcachesim import S3FIFO, Request  # type: ignore[import-not-found]

    cache = S3FIFO(items * (MEAN_BYTES if trace == "sized" else 1))
    request, count = Request(), 0
    for request.obj_id, request.obj_size in itertools.islice(TRACES[trace](), REQUESTS):
        count += cache.get(request)
    return count


def rows() -> Iterator[tuple[str, int, int]]:
    for trace, items in itertools.product(TRACES, SIZES):
        yield trace, items, hits(trace, items)


if __name__ == "__main__":
    for trace, items, count in rows():
        print(f'{{"{trace}", {items}, {count}}},')
