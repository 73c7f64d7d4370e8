# SPDX-License-Identifier: Apache-2.0
"""The places where the table's programs run: one namespace, or two joined by a wire.

Owns: the namespaces of a NamespacePair, until close().
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from entry import ONE_HOST, TWO_HOSTS
from namespaces import ADDRESSES, INTERFACES, NamespacePair
from pairs import BUILD, Command

SERVER, CLIENT = 0, 1
WIRE_MTU = 1500


@dataclass
class Place:
    """Where the two sides of a pair run."""

    name: str
    wire: NamespacePair

    def _namespace(self, side: int) -> int:
        return side if self.name == TWO_HOSTS else 0

    def inside(self, side: int, command: Command) -> Command:
        return self.wire.inside(self._namespace(side), command)

    def address(self, side: int) -> str:
        return ADDRESSES[self._namespace(side)]

    def device(self, side: int) -> str:
        return f"vb_{INTERFACES[self._namespace(side)]}"

    def mpi_hosts(self, agent: Path, ranks: int) -> str:
        """Options of mpirun: `ranks` ranks, half of them on each host.

        mpirun starts its daemon on another host through the agent, which enters the namespace.
        """
        if self.name == ONE_HOST:
            return f"-np {ranks} --host localhost:{ranks}"
        hosts = ",".join(f"{address}:{ranks // 2}" for address in ADDRESSES)
        network = f"--mca oob_tcp_if_include {ADDRESSES[0]}/24 --mca btl_tcp_if_include {ADDRESSES[0]}/24"
        return f"-np {ranks} --host {hosts} --mca plm_rsh_agent {agent} {network}"

    def write_mpi_agent(self, folder: Path) -> Path:
        """Write the program that mpirun uses as ssh: AGENT [OPTION...] ADDRESS COMMAND...

        Open MPI takes two hosts of the same name for one, so the other side gets its own name.
        """
        agent = folder / "enter-host"
        enter = shlex.join(self.wire.inside(1, ["unshare", "--uts"]))
        agent.write_text(f'#!/bin/sh\nshift\nexec {enter} sh -c "hostname other; $*"\n')
        agent.chmod(0o755)
        return agent

    def left_behind(self) -> set[str]:
        """The names of the NIC's sockets in this place, and the files in shared memory."""
        held = {str(path) for path in Path("/dev/shm").iterdir()}
        for side in (SERVER, CLIENT):
            names = Path(f"/proc/{self.wire.holder(side)}/net/unix").read_text()
            held |= set(re.findall(r"@verbena/\S+", names))
        return held


def verbena() -> Path:
    return BUILD / "verbena"
