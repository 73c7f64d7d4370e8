#!/bin/bash
# rpc.sh BUILD - run inside rxe-vm: coroutine RPC on the kernel's Soft-RoCE: the calls' and streams' own tests with rxe0 as their device,
# server and client in two processes. Left out: tens of megabytes, which take an emulated processor minutes.
set -euo pipefail
build=${1:?usage: rpc.sh BUILD}
large='*HoldsTheWriterBack*:*AttachmentsTravelBothWays*:*ADroppedCallsAttachment*:*HeldAgainstTheServersLimit*'
VERBENA_TEST_DEVICE=rxe0 timeout 400 "$build/bench/lib_rpc_test" --gtest_filter="Over/Calls.*/rdma:Over/Streams.*/rdma:-$large" 2>/dev/null |
	grep -v '^\[ RUN\|^\[---'
