# SPDX-License-Identifier: Apache-2.0
"""Moves checked data between two processes with Mooncake's TransferEngine over RDMA.

usage: mooncake_pair.py target DEVICE OWN PORT
       mooncake_pair.py initiator DEVICE OWN ADDRESS PORT ROUNDS
OWN is the address by which the other side reaches this one.
"""

import sys

import numpy as np
from exchange import BYTES, Words, connection, end, initiate, serve
from mooncake.engine import TransferEngine


def main(arguments: list[str]) -> None:
    role, device, own = arguments[:3]
    engine = TransferEngine()
    if engine.initialize(own, "P2PHANDSHAKE", "rdma", device) != 0:
        end("the engine could not be initialised", 1)
    buffer = np.zeros(BYTES, dtype=np.uint8)
    address = buffer.ctypes.data
    if engine.register_memory(address, BYTES) != 0:
        end("the memory was not registered", 1)

    words = Words(connection([role, *arguments[3:]]))
    words.send(f"{own}:{engine.get_rpc_port()} {address}".encode())
    peer, peer_address = words.receive().decode().split()
    if role == "target":
        serve(words, buffer)

    def check(status: int) -> None:
        if status != 0:
            end(f"a transfer ended as {status}", 1)

    initiate(
        words,
        buffer,
        int(arguments[5]),
        lambda size: check(engine.transfer_sync_write(peer, address, int(peer_address), size)),
        lambda size: check(engine.transfer_sync_read(peer, address, int(peer_address), size)),
    )


main(sys.argv[1:])
