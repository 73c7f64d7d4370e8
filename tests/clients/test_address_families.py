# SPDX-License-Identifier: Apache-2.0
"""A path between an IPv4 and an IPv6 address is a program's mistake: an errno, not an abort.

perftest's multicast (-g) with an IPv4 GID asks for such a path: its group is an IPv6 address.
"""

from conftest import Runner

# The first GID of vb_lo is 127.0.0.1.
PROGRAM = """
import errno
import ipaddress
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
import pyverbs.enums as e

context = Context(name="vb_lo")
pd, cq = PD(context), CQ(context, 8)

def address(index, gid):
    route = GlobalRoute(dgid=GID(ipaddress.ip_address(gid).exploded), sgid_index=index, hop_limit=1)
    return AHAttr(gr=route, is_global=1, port_num=1)

def outcome(call):
    try:
        call()
    except PyverbsRDMAError as error:
        return errno.errorcode[error.error_code]
    return "ok"

def connect(index, gid):
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap()))
    attributes = QPAttr(port_num=1)
    attributes.ah_attr, attributes.path_mtu = address(index, gid), e.IBV_MTU_1024
    qp.to_rtr(attributes)

for gid in ("ff0e::7", "::ffff:239.1.2.3"):
    print("ah", gid, outcome(lambda: AH(pd, attr=address(0, gid))))
print("qp", outcome(lambda: connect(0, "2001:db8::7")))
"""


def test_a_path_between_two_families_is_refused_and_does_not_abort(runner: Runner) -> None:
    ran = runner.run(["env", "VERBENA_DEVICES=vb_lo", "/usr/bin/python3", "-c", PROGRAM])
    assert ran.output.splitlines() == [
        "ah ff0e::7 EINVAL",
        "ah ::ffff:239.1.2.3 ok",
        "qp EINVAL",
    ], f"\n{ran}"
