# SPDX-License-Identifier: Apache-2.0
"""The measurements of `make results`: what every published claim needs."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    name: str  # its files have this name
    system: str  # as in `verbena bench SYSTEM`
    minutes: float  # that it takes, by estimate
    options: str
    quick: str  # the options of RESULTS_QUICK=1


STEPS = (
    Step("rcud", "rcud", 5, "--min-time 0.5", "--sizes 64,1K,4K --iters 5000 --warmup 500 --reps 2"),
    Step(
        "rcud_qps",
        "rcud",
        1,
        "--qps 1,10,100,1000,10000 --min-time 0.5",
        "--qps 1,100,1000 --iters 5000 --warmup 500 --reps 2 --window-mode credit",
    ),
    # A UD message above the MTU, posted as it is: S1.3 is about 8192 B.
    Step(
        "rcud_oversize",
        "rcud",
        0.2,
        "--sizes 8K --windows 64 --ud-oversize raw --iters 20000 --warmup 2000",
        "--sizes 8K --windows 64 --ud-oversize raw --iters 500 --warmup 50 --reps 2",
    ),
    Step(
        "scale",
        "scale",
        13,
        "--clients 10,100,1000,5000,10000,20000 --rate 0,1000 --transport rdma --seconds 2 --reps 3",
        "--clients 10,100 --rate 0,100 --transport rdma --seconds 0.2 --reps 1",
    ),
    Step(
        "scale_threads",
        "scale",
        3,
        "--engine epoll,threads --clients 10,100,300,1000,2000 --transport rdma --seconds 1 --reps 3",
        "--engine epoll,threads --clients 10,50 --transport rdma --seconds 0.2 --reps 1",
    ),
    Step(
        "scale_capacity",
        "scale",
        2,
        "--capacity --seconds 0.5 --reps 3",
        "--capacity --clients 10,40 --seconds 0.2 --reps 1",
    ),
    Step(
        "rpc",
        "rpc",
        6,
        "--transport rdma --duration 1 --warmup 0.2 --reps 5",
        "--transport rdma --sizes 128,256K --concurrency 1,256 --duration 0.1 --warmup 0.1 --reps 2",
    ),
    Step(
        "rpc_ablation",
        "rpc",
        8,
        "--transport rdma --ablate inline,coalescing,send-queue,pool,connection-pool --sizes 64,128,1M "
        "--concurrency 1,64 --duration 1 --warmup 0.2 --reps 5",
        "--transport rdma --ablate inline --sizes 128 --concurrency 1 --duration 0.1 --warmup 0.1 --reps 2",
    ),
    Step(
        "rpc_connections",
        "rpc",
        1,
        "--transport rdma --recv-mode per_connection --sizes 128 --concurrency 64 --connections 64 --duration 1",
        "--transport rdma --recv-mode per_connection --sizes 128 --concurrency 4 --connections 4 --duration 0.1",
    ),
    Step(
        "kv",
        "kv",
        4,
        "--proto eager,rndv --sizes 64,1K,4K,16K,64K,256K,1M --window 1,16 --seconds-max 0.5",
        "--proto eager,rndv --sizes 64,64K --window 1 --iters 1000 --reps 2",
    ),
    Step(
        "kv_sensitivity",
        "kv",
        2,
        "--sensitivity depth,warmup,iters --sizes 64 --seconds-max 0.5",
        "--sensitivity depth --sizes 64 --iters 500 --reps 2",
    ),
)
