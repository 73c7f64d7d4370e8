#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# channels.sh BUILD: run the unit tests of lib/channel on the kernel's Soft-RoCE, inside rxe-vm.
# Their device is rxe0. They cover frames, credits, READ, WRITE, memory windows and fetched
# messages.
#
# Tests that are left out:
# - a READ past the end of its window (Ways/Misused.*/1): this kernel's rxe allows it up to the end
#   of the memory region;
# - 40 MB in frames: they take minutes on an emulated processor;
# - 1,000 channels that close at once: on an emulated processor they take longer than they may wait.
set -euo pipefail
build=${1:?usage: channels.sh BUILD}
VERBENA_TEST_DEVICE=rxe0 timeout 400 "$build/bench/lib_channel_test" \
	--gtest_filter='RcChannels.*:RcChannelClose.*:Direct.*:FetchedMessages.*:Ways/Misused.*:Memory.*:LayersAbove.*:EveryCarrier/Channels.*/rc:Managed.*:-Managed.Certificates*:Ways/Misused.*/1:*ASenderIsThrottled*:*AThousandByBothSides*' |
	grep -v '^\[ RUN\|^\[---'
