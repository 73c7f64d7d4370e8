# SPDX-License-Identifier: Apache-2.0
"""The table's part about services and tools of operators: Ceph and infiniband-diags."""

from entry import CLIENT_KILLED, ONE_HOST, Entry, Kill, Program

PROGRAMS = {
    "ceph": Program("Ceph", "Debian `ceph-mon` and `ceph-common`", "ceph --version"),
    "diagnostics": Program(
        "infiniband-diags", "Debian `infiniband-diags`", "dpkg-query --show infiniband-diags", r"\s(\d[\w.+-]*)"
    ),
}

CEPH = "{run} {system_python} {helpers}/ceph_pair.py"

ENTRIES = [
    Entry(
        "Ceph, a monitor and its clients over async+rdma: stored and read values compared",
        "ceph",
        f"{CEPH} client {{folder}} {{device}} {{address}} {{port}} {{n}}",
        f"{CEPH} monitor {{folder}} {{device}} {{address}} {{port}}",
        says=(r"^client: \d+ rounds, every byte right",),
        ready="the monitor starts",
        server_ends=False,
        rounds=(5, 1_000_000),
        kill=((CLIENT_KILLED, Kill(survivor="goes on", within_s=3)),),
        limit_s=90,
    ),
    Entry(
        "infiniband-diags: ibstat",
        "diagnostics",
        "{run} ibstat {device}",
        says=("^CA '{device}'", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"),
        places=(ONE_HOST,),
        quick=True,
    ),
    Entry(
        "infiniband-diags: ibstatus",
        "diagnostics",
        "{run} ibstatus {device}",
        says=("Infiniband device '{device}' port 1 status", "4: ACTIVE", "5: LinkUp", "link_layer:\\s+Ethernet"),
        places=(ONE_HOST,),
        quick=True,
    ),
]
