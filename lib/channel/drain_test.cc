// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/drain.h"

#include <gtest/gtest.h>

#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;

using testing_tools::bytes_of;
using testing_tools::until;

class Drain : public ::testing::Test {
protected:
	void SetUp() override { transports_.open({.units_start = 16, .units_max = 4096, .connections_max = 1}); }
	RcTransport& server() { return transports_[1]; }
	void expect_drained() {
		loop_.complete(until(loop_, [&] { return server().draining() == 0; }));
		EXPECT_EQ(server().draining(), 0u);
		EXPECT_EQ(server().pinned_bytes(), server().credits_free() * server().options().unit_bytes);
	}

	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
};

TEST_F(Drain, AFullServerHasRoomAgainWhenAQueuePairIsDestroyed) {
	auto [a, b] = transports_.connect();
	b.reset();
	EXPECT_EQ(server().channels(), 0u);
	EXPECT_EQ(server().objects().queue_pairs, 1u);
	EXPECT_FALSE(server().offer().has_value());
	expect_drained();
	EXPECT_EQ(server().objects().queue_pairs, 0u);
	EXPECT_TRUE(server().offer().has_value());
}

TEST_F(Drain, ADeviceThatReportsNoLastReceiveIsGivenATime) {
	auto [a, b] = transports_.connect();
	b.reset();
	ibv_async_event event;
	while (ibv_get_async_event(server().device().context.get(), &event) == 0) ibv_ack_async_event(&event);
	expect_drained();
}

TEST_F(Drain, AChannelWhoseQueuePairHasFailedLeavesIt) {
	auto [a, b] = transports_.connect();
	a.reset();
	loop_.complete([](async::Loop& loop, Channel& channel) -> Task<void> {
		co_await channel.send(bytes_of("anybody there?"));
		co_await until(loop, [&] { return channel.closed(); });
	}(loop_, *b));
	EXPECT_TRUE(b->closed());
	loop_.complete([](async::Loop& loop) -> Task<void> { co_await loop.sleep_for(1); }(loop_));
	b.reset();
	expect_drained();
}

TEST_F(Drain, ATransportIsDestroyedWithTheQueuePairsThatDrain) {
	auto [a, b] = transports_.connect();
	a.reset();
	b.reset();
	EXPECT_EQ(transports_[0].draining() + server().draining(), 2u);
}

}  // namespace
}  // namespace verbena::channel
