#include "lib/kv/settings.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

TEST(KvSettings, TheUsersDepthsAreThoseOfTheChannels) {
	for (const std::uint32_t rx : {8u, 64u, 512u, 6000u})
		for (const std::uint32_t tx : {8u, 128u, 6000u}) {
			const channel::RcOptions options = rc_options({.rx_depth = rx, .tx_depth = tx});
			EXPECT_EQ(options.window.max, rx);
			EXPECT_EQ(options.units_start, rx);
			EXPECT_LE(options.window.first, rx);
			EXPECT_EQ(options.send_depth, tx);
			EXPECT_LT(options.send_units_max, tx);
			EXPECT_GE(options.units_max, rx + tx);
		}
}

TEST(KvSettings, AnEagerMessageFitsIntoOneReceiveBuffer) {
	for (const std::uint32_t eager_max : {0u, 4096u, 10'000u, 60'000u})
		EXPECT_GE(rc_options({.eager_max = eager_max}).unit_bytes, eager_max + RequestHeader::bytes);
}

TEST(KvSettings, TheIndexIsRegisteredInAdditionToTheStoresMemory) {
	const std::size_t without = rc_options({.memory = 1 << 20}).memory.max;
	EXPECT_EQ(without, std::size_t{1} << 20);
	EXPECT_GE(rc_options({.memory = 1 << 20, .one_sided = 2 << 20}).memory.max, without + (2 << 20));
}

TEST(KvSettings, EveryMessageIsEagerToTheChannelOnBothSides) {
	for (const channel::RcOptions& options : {rc_options({}), client_rc_options({})})
		EXPECT_EQ(options.eager_max, options.message_max);
}

}  // namespace
}  // namespace verbena::kv
