// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/channel/acceptor.h"

namespace verbena::channel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Pair;

TEST(RcOptions, AreDescribedByTheirNames) {
	EXPECT_EQ(describe(RcOptions{.recv_mode = RecvMode::per_connection,
				  .receive_depth = 1,
				  .unit_bytes = 2,
				  .window = {.first = 3, .max = 4},
				  .units_start = 5,
				  .units_max = 6,
				  .units_low = 7,
				  .connections_max = 8,
				  .send_depth = 9,
				  .send_units_max = 10,
				  .direct_depth = 11,
				  .eager_max = 12,
				  .share_min = 13,
				  .part_bytes = 14,
				  .offers_max = 15,
				  .fragments_on_heap = true,
				  .watermark = Watermark::close,
				  .reads = 16,
				  .inline_max = 17,
				  .coalesce = false,
				  .message_max = 18,
				  .poll_batch = 19,
				  .close_timeout_ms = 20,
				  .memory = {.max = 21, .region_bytes = 22}}),
		(Described{{"recv_mode", "per_connection"}, {"receive_depth", "1"}, {"unit_bytes", "2"}, {"window_first", "3"},
			{"window_max", "4"}, {"units_start", "5"}, {"units_max", "6"}, {"units_low", "7"}, {"connections_max", "8"},
			{"send_depth", "9"}, {"send_units_max", "10"}, {"direct_depth", "11"}, {"reads", "16"}, {"eager_max", "12"},
			{"share_min", "13"}, {"part_bytes", "14"}, {"offers_max", "15"}, {"fragments_on_heap", "yes"},
			{"watermark", "close"}, {"inline_max", "17"}, {"coalesce", "no"}, {"message_max", "18"},
			{"poll_batch", "19"}, {"close_timeout_ms", "20"}, {"memory_max", "21"}, {"memory_region_bytes", "22"}}));
}

TEST(RcOptions, ByDefaultShareOneQueueAndWaitForMemory) {
	EXPECT_THAT(describe(RcOptions()),
		AllOf(Contains(Pair("recv_mode", "srq")), Contains(Pair("watermark", "wait")),
			Contains(Pair("fragments_on_heap", "no")), Contains(Pair("coalesce", "yes"))));
}

TEST(RcOptions, ForManyConnectionsHaveFewDirectOperations) {
	const RcOptions few = many_connections({.send_depth = 5});
	EXPECT_EQ(few.direct_depth, 4u);
	EXPECT_EQ(few.reads, 4u);
	EXPECT_EQ(few.send_depth, 5u);
}

TEST(RcOptions, WithOwnReceivesHaveUnitsForAllConnections) {
	const RcOptions own =
		with_own_receives({.receive_depth = 20, .units_max = 1, .connections_max = 10, .send_units_max = 3});
	EXPECT_EQ(own.recv_mode, RecvMode::per_connection);
	EXPECT_EQ(own.window.first, 20u);
	EXPECT_EQ(own.window.max, 20u);
	EXPECT_EQ(own.units_max, 10 * (20 + control_kinds + 3));
	EXPECT_EQ(with_own_receives({.receive_depth = 20, .units_max = 5000, .connections_max = 10}).units_max, 5000u);
}

TEST(AcceptorOptions, AreDescribedByTheirNames) {
	EXPECT_EQ(describe(AcceptorOptions{.patience = 1'000'000,
				  .handshakes_max = 2,
				  .handshake_grace = 3'000'000,
				  .accepted_max = 4,
				  .tcp = {.buffer_max = 5, .dead_after_ms = 6, .stall_timeout_ms = 7}}),
		(Described{{"handshake_timeout_ms", "1"}, {"handshakes_max", "2"}, {"handshake_grace_ms", "3"},
			{"accepted_max", "4"}, {"tcp_buffer_max", "5"}, {"tcp_dead_after_ms", "6"},
			{"tcp_stall_timeout_ms", "7"}}));
}

}  // namespace
}  // namespace verbena::channel
