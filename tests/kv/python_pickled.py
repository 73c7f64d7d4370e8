# SPDX-License-Identifier: Apache-2.0
"""Pickles each error of verbena_kv, also between processes, and prints "all good"."""

import copy
import multiprocessing
import pickle

from verbena_kv import KvError, Result


class FullError(KvError):
    """An error of a program, whose constructor has other arguments."""

    def __init__(self) -> None:
        super().__init__(Result.FULL, "the store is full")
        self.shelf = 7


def raise_full() -> None:
    raise FullError


def same(error: KvError, other: KvError) -> bool:
    return (type(error), str(error), vars(error)) == (type(other), str(other), vars(other))


if __name__ == "__main__":
    for error in (KvError(Result.TIMEOUT, "no answer"), FullError()):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert same(pickle.loads(pickle.dumps(error, protocol)), error), protocol
        assert same(copy.copy(error), error)
    with multiprocessing.Pool(1) as pool:
        try:
            pool.apply(raise_full)
            raise AssertionError("it does not fail")
        except FullError as error:
            assert same(error, FullError())
    print("all good")
