// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/settings.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

TEST(KvSettings, TheUsersDepthsAreThoseOfTheChannels) {
	for (const std::uint32_t rx : {8u, 64u, 512u, 6000u})
		for (const std::uint32_t tx : {8u, 128u, 6000u}) {
			const Settings settings{.rx_depth = rx, .tx_depth = tx};
			for (const channel::RcOptions& options :
				{server_rc_options(settings, value_max), client_rc_options(settings)}) {
				EXPECT_EQ(options.window.max, rx);
				EXPECT_EQ(options.units_start, rx);
				EXPECT_LE(options.window.first, rx);
				EXPECT_EQ(options.send_depth, tx);
				EXPECT_LT(options.send_units_max, tx);
				EXPECT_GE(options.units_max, rx + tx);
			}
		}
}

TEST(KvSettings, AnEagerMessageFitsIntoOneReceiveBuffer) {
	for (const std::uint32_t eager_max : {0u, 4096u, 10'000u, 60'000u})
		EXPECT_GE(rc_options({.eager_max = eager_max}).unit_bytes, eager_max + RequestHeader::bytes);
}

TEST(KvSettings, AServersReceiveBuffersDoNotExceedTheirShareOfTheBudget) {
	for (const std::uint32_t eager_max : {0u, 4096u, 16u << 10}) {
		const channel::RcOptions options = server_rc_options({.eager_max = eager_max}, value_max);
		EXPECT_LE(std::size_t{options.units_max} * options.unit_bytes, Budget::units_bytes);
	}
}

TEST(KvSettings, EachClientGetsItsFirstCredits) {
	for (const std::uint32_t clients : {1u, 80u, 1024u}) {
		const channel::RcOptions options = server_rc_options({.connections_max = clients}, value_max);
		EXPECT_LE(clients * channel::ReceiveCredits::needed(options.window), options.units_max / 8 * 7) << clients;
		EXPECT_GE(options.window.first, 2u);
	}
	EXPECT_EQ(server_rc_options({.connections_max = 80}, value_max).window.first, 16u);
}

TEST(KvSettings, AServersMessagesHaveRoomForTheLongestOneAndForTheIndex) {
	for (const std::uint32_t longest : {1u << 20, 20u << 20, value_max}) {
		const std::size_t without = server_rc_options({}, longest).memory.max;
		EXPECT_GE(without, std::max<std::size_t>(Budget::messages_bytes, longest + key_max));
		EXPECT_GE(without, server_rc_options({}, longest).message_max);
		EXPECT_GE(server_rc_options({.one_sided = 3 << 20}, longest).memory.max, without + (3 << 20));
	}
}

TEST(KvSettings, EveryMessageIsEagerToTheChannelOnBothSides) {
	for (const channel::RcOptions& options : {server_rc_options({}, value_max), client_rc_options({})})
		EXPECT_EQ(options.eager_max, options.message_max);
}

}  // namespace
}  // namespace verbena::kv
