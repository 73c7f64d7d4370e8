# SPDX-License-Identifier: Apache-2.0
"""The table's part about MPI: Open MPI and MPICH, each with mpi_check.c."""

from entry import CLIENT_KILLED, ONE_HOST, Entry, Kill, Program

PROGRAMS = {
    "mpi": Program("Open MPI", "Debian `openmpi-bin`", "mpirun.openmpi --version"),
    "mpich": Program("MPICH", "Debian `mpich`", "mpichversion"),
}

OPEN_MPI_ROUTES = {
    "ucx": "--mca pml ucx --mca osc ucx --mca btl ^openib -x UCX_TLS=rc_v,self",
    # Open MPI's osc rdma, its first choice for one-sided operations, has no route to another host.
    "ofi": "--mca pml cm --mca osc pt2pt,sm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm'"
    " --mca btl ^openib,ofi",
}
# Debian's MPICH is built on UCX.
MPICH_ROUTES = {"rc_verbs": "rc_v,self", "ud_verbs": "ud_v,self"}


def open_mpi(route: str, ranks: int) -> Entry:
    return Entry(
        f"Open MPI over {route}: {ranks} ranks",
        "mpi",
        f"mpirun.openmpi --allow-run-as-root --oversubscribe {{hosts{ranks}}} {OPEN_MPI_ROUTES[route]}"
        " {run} {built}/mpi_check {n}",
        says=(rf"^{ranks} ranks, 0 wrong of \d+ values",),
        rounds=(2, 1_000_000),
        limit_s=120,
        kill=((CLIENT_KILLED, Kill(victim="mpi_check", within_s=60)),) if ranks == 2 else (),
        quick=route == "ucx" and ranks == 2,
    )


def mpich(route: str, ranks: int) -> Entry:
    return Entry(
        f"MPICH over UCX's {route}: {ranks} ranks",
        "mpich",
        f"UCX_TLS={MPICH_ROUTES[route]} {{run}} mpiexec.mpich -n {ranks} {{built}}/mpich_check {{n}}",
        says=(rf"^{ranks} ranks, 0 wrong of \d+ values",),
        rounds=(2, 1_000_000),
        limit_s=120,
        places=(ONE_HOST,),
        kill=((CLIENT_KILLED, Kill(victim="mpich_check", within_s=60)),) if ranks == 2 else (),
    )


ENTRIES = [open_mpi(route, ranks) for route in OPEN_MPI_ROUTES for ranks in (2, 4)] + [
    mpich(route, ranks) for route in MPICH_ROUTES for ranks in (2, 4)
]
