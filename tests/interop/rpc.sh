#!/bin/bash
# rpc.sh BUILD - run inside rxe-vm: coroutine RPC on the kernel's Soft-RoCE: the calls' and streams' own tests with rxe0 as their device,
# server and client in two processes, with receive buffers that are shared and that are each connection's own; then what connections cost
# their server, attachments in registered memory, TCP beside RDMA on one port, and transports that do not match. Left out: tens of megabytes,
# which take an emulated processor minutes.
set -euo pipefail
build=${1:?usage: rpc.sh BUILD}
tests='Over/Calls.*/rdma*:Over/Streams.*/rdma*:ServerMemory.*:RegisteredAttachments.*:*SlowServer*:Calls.OnePortServesTcpAndRdma:Calls.TransportsThatDoNotMatchSaySo'
large='*HoldsTheWriterBack*:*HeldAgainstTheServersLimit*:*AboveTheWatermark*'
export VERBENA_TEST_DEVICE=rxe0 VERBENA_TEST_CONNECTIONS=200 VERBENA_TEST_LARGEST=300000
timeout 800 "$build/bench/lib_rpc_test" --gtest_filter="$tests:-$large" 2>/dev/null |
	grep -v '^\[ RUN\|^\[---'
