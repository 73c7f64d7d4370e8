#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rpc.sh BUILD: run the unit tests of lib/rpc on the kernel's Soft-RoCE, inside rxe-vm. Their device
# is rxe0, and server and client are two processes. They cover calls and streams with shared receive
# queues and with receive buffers of each connection, the memory that connections cost their server,
# attachments in registered memory, TCP and RDMA on one port, and transports that do not match.
#
# Tests of tens of megabytes are left out: they take minutes on an emulated processor. So is one
# whose server destroys a queue pair in the middle of a large message: the kernel's may then stop
# retrying (docs/found.md).
set -euo pipefail
build=${1:?usage: rpc.sh BUILD}
tests='Over/Calls.*/rdma*:Over/Streams.*/rdma*:ServerMemory.*:RegisteredAttachments.*:*SlowServer*:Calls.OnePortServesTcpAndRdma:Calls.TransportsThatDoNotMatchSaySo'
large='*HoldsTheWriterBack*:*HeldAgainstTheServersLimit*:*AboveTheWatermark*:*WithWatermarkClose*'
export VERBENA_TEST_DEVICE=rxe0 VERBENA_TEST_CONNECTIONS=200 VERBENA_TEST_LARGEST=300000
timeout 800 "$build/bench/lib_rpc_test" --gtest_filter="$tests:-$large" 2>/dev/null |
	grep -v '^\[ RUN\|^\[---'
