#!/bin/bash
# channels.sh BUILD - run inside rxe-vm: the library above the verbs on the kernel's Soft-RoCE: the channel's own tests with rxe0 as their
# device (frames, credits, READ, WRITE and windows, messages that are fetched). Left out: a READ past the end of its window, which this kernel's
# rxe allows up to the end of the memory region (Ways/Misused.*/1); 40 MB in frames, which take an emulated processor minutes; a thousand that
# close at once, for which it takes longer than they wait.
set -euo pipefail
build=${1:?usage: channels.sh BUILD}
VERBENA_TEST_DEVICE=rxe0 timeout 400 "$build/bench/lib_channel_test" \
	--gtest_filter='RcChannels.*:RcChannelClose.*:Direct.*:FetchedMessages.*:Ways/Misused.*:Memory.*:LayersAbove.*:EveryCarrier/Channels.*/rc:Managed.*:-Managed.Certificates*:Ways/Misused.*/1:*ASenderIsThrottled*:*AThousandByBothSides*' |
	grep -v '^\[ RUN\|^\[---'
