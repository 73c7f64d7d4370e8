# SPDX-License-Identifier: Apache-2.0
"""Moves checked data between two NIXL agents over their UCX backend.

usage: nixl_pair.py target PORT | nixl_pair.py initiator ADDRESS PORT ROUNDS
"""

import sys

import numpy as np
from exchange import BYTES, Words, connection, end, initiate, serve
from nixl_cu12 import nixl_agent, nixl_agent_config


def main(arguments: list[str]) -> None:
    role = arguments[0]
    agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
    buffer = np.zeros(BYTES, dtype=np.uint8)
    address = buffer.ctypes.data
    if agent.register_memory([(address, BYTES, 0, "")], "DRAM") is None:
        end("the memory was not registered", 1)

    words = Words(connection(arguments))
    words.send(agent.get_agent_metadata())
    peer = agent.add_remote_agent(words.receive())
    peer = peer.decode() if isinstance(peer, bytes) else peer
    words.send(str(address).encode())
    peer_address = int(words.receive())
    if role == "target":
        serve(words, buffer)

    def move(operation: str, size: int) -> None:
        local = agent.get_xfer_descs([(address, size, 0)], "DRAM")
        remote = agent.get_xfer_descs([(peer_address, size, 0)], "DRAM")
        handle = agent.initialize_xfer(operation, local, remote, peer)
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        agent.release_xfer_handle(handle)
        if state != "DONE":
            end(f"a transfer ended as {state}", 1)

    initiate(words, buffer, int(arguments[3]), lambda size: move("WRITE", size), lambda size: move("READ", size))


main(sys.argv[1:])
