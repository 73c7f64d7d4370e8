// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/receive_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;
using testing_tools::bytes_of;

constexpr RcOptions published{.recv_mode = RecvMode::per_connection,
	.receive_depth = 8,
	.unit_bytes = 256 << 10,
	.units_max = 64,
	.send_units_max = 2,
	.direct_depth = 0};

Task<void> send_numbers(Channel& channel, int count, int& sent) {
	for (int i = 0; i < count; ++i) {
		if (!co_await channel.send(std::as_bytes(std::span(&i, 1)))) co_return;
		++sent;
	}
}

Task<void> hold_numbers(Channel& channel, std::size_t count, std::vector<Message>& held) {
	while (held.size() < count) {
		auto message = co_await channel.receive();
		if (!message) co_return;
		int number = -1;
		std::memcpy(&number, message->bytes().data(), sizeof number);
		EXPECT_EQ(static_cast<std::size_t>(number), held.size());
		held.push_back(std::move(*message));
	}
}

// Regression: all units were posted to the shared queue, and none was left to send from.
TEST(SharedReceiveQueue, LeavesUnitsOfASmallPoolToSendFrom) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_start = 64, .units_max = 64, .units_low = 64, .direct_depth = 0, .inline_max = 0});
	auto [a, b] = transports.connect();
	int sent = 0;
	std::vector<Message> held;
	loop.spawn(send_numbers(*a, 3, sent));
	loop.complete(hold_numbers(*b, 3, held));
	EXPECT_EQ(held.size(), 3u);
}

// The program holds every message, its peer asks for more credits, and the queue cannot grow.
TEST(SharedReceiveQueueAtTheWatermark, EndsTheConnectionThatAsksAndNoOther) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_start = 16, .units_max = 48, .units_low = 4, .watermark = Watermark::close});
	auto greedy = transports.connect(), other = transports.connect();
	loop.spawn(testing_tools::echo(*other.b));
	loop.spawn([](Channel& channel) -> Task<void> {
		const std::vector<std::byte> block(1000);
		while (co_await channel.send(block)) {}
	}(*greedy.a));
	loop.complete(testing_tools::until(loop, [&] { return greedy.b->closed(); }));
	EXPECT_NE(greedy.b->reason().find("no receive buffer is left"), std::string::npos) << greedy.b->reason();
	loop.complete([](Channel& channel) -> Task<void> {
		EXPECT_TRUE(co_await channel.send(bytes_of("still here?")));
		EXPECT_TRUE(co_await channel.receive());
	}(*other.a));
	loop.abandon_spawned();
}

TEST(SharedReceiveQueueAtTheWatermark, HoldsTheSenderBackUnlessItIsToClose) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_start = 16, .units_max = 48, .units_low = 4});
	auto [a, b] = transports.connect();
	testing_tools::fill(loop, *a);
	loop.complete(testing_tools::until(loop, [&] { return transports[1].credits_free() == 0; }));
	EXPECT_FALSE(a->closed() || b->closed());
	EXPECT_EQ(transports[1].credits_free(), 0u);
	loop.abandon_spawned();
}

class OwnReceiveQueues : public ::testing::Test {
protected:
	void SetUp() override { transports_.open(published); }
	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
};

TEST_F(OwnReceiveQueues, PinTheirDepthAndWhatControlFramesNeed) {
	const auto pair = transports_.connect();
	EXPECT_EQ(
		transports_[0].pinned_bytes(), (published.receive_depth + control_kinds) * std::size_t{published.unit_bytes});
	const auto another = transports_.connect();
	EXPECT_EQ(transports_[0].pinned_bytes(),
		2 * (published.receive_depth + control_kinds) * std::size_t{published.unit_bytes});
}

TEST_F(OwnReceiveQueues, AreFullAgainWhenAFrameHasArrivedWhateverTheProgramKeeps) {
	auto [a, b] = transports_.connect();
	const std::size_t before = transports_[1].pinned_bytes();
	int sent = 0;
	std::vector<Message> held;
	loop_.spawn(send_numbers(*a, 20, sent));
	loop_.complete(hold_numbers(*b, 20, held));
	EXPECT_EQ(held.size(), 20u);
	// Messages of one frame share a unit. The units that the program holds come on top of those
	// that are posted.
	EXPECT_GT(transports_[1].pinned_bytes(), before);
	held.clear();
	loop_.complete([](async::Loop& loop) -> Task<void> { co_await loop.sleep_for(1); }(loop_));
	EXPECT_EQ(transports_[1].pinned_bytes(), before);
}

TEST_F(OwnReceiveQueues, CarryLargeMessagesInUnitsSeveralInFlight) {
	auto [a, b] = transports_.connect();
	std::vector<std::byte> large(3'000'000);
	for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 31);
	loop_.spawn([](Channel& channel, std::span<const std::byte> bytes) -> Task<void> {
		for (int i = 0; i < 3; ++i) EXPECT_TRUE(co_await channel.send(bytes));
	}(*a, large));
	loop_.complete([](Channel& channel, std::span<const std::byte> expected) -> Task<void> {
		for (int i = 0; i < 3; ++i) {
			const auto message = co_await channel.receive();
			if (!message) co_return ADD_FAILURE() << channel.reason();
			EXPECT_TRUE(std::ranges::equal(message->bytes(), expected));
		}
	}(*b, large));
}

TEST_F(OwnReceiveQueues, GiveEverythingBackWhenTheirConnectionEnds) {
	for (int round = 0; round < 20; ++round) {
		auto [a, b] = transports_.connect();
		int sent = 0;
		std::vector<Message> held;
		loop_.spawn(send_numbers(*a, 5, sent));
		loop_.complete(hold_numbers(*b, 3, held));
		a.reset();
		b.reset();
		held.clear();
		loop_.abandon_spawned();
	}
	loop_.complete([](async::Loop& loop) -> Task<void> { co_await loop.sleep_for(1); }(loop_));
	EXPECT_EQ(transports_[0].pinned_bytes(), 0u);
	EXPECT_EQ(transports_[1].pinned_bytes(), 0u);
}

// The pool has 20 units more than both queues and the sender need; messages of a unit's size use
// them up one by one.
Task<void> send_units(Channel& channel, int count, int& sent) {
	const std::vector<std::byte> unit(published.unit_bytes - 64);
	for (int i = 0; i < count; ++i) {
		if (!co_await channel.send(unit)) co_return;
		++sent;
	}
}

Task<void> hold_all(Channel& channel, std::vector<Message>& held, Trouble& end) {
	while (true) {
		auto message = co_await channel.receive();
		if (!message) {
			end = message.error();
			co_return;
		}
		held.push_back(std::move(*message));
	}
}

TEST(OwnReceiveQueuesAtTheWatermark, HoldTheSenderBackUntilTheProgramReleasesMessages) {
	async::Loop loop;
	testing_tools::TwoTransports transports(loop);
	RcOptions options = published;
	options.units_max = 20;
	transports.open(options);
	auto [a, b] = transports.connect();
	int sent = 0;
	std::vector<Message> held;
	Trouble end = Trouble::unsupported;
	loop.spawn(send_units(*a, 60, sent));
	loop.spawn(hold_all(*b, held, end));
	const auto wait = [](async::Loop& on, const std::vector<Message>& messages, std::size_t wanted) -> Task<void> {
		for (int turn = 0; turn < 20'000 && messages.size() < wanted; ++turn) co_await on.sleep_for(100'000);
	};
	loop.complete(wait(loop, held, 18));
	loop.complete([](async::Loop& on) -> Task<void> {
		// Time in which more messages would arrive.
		for (int turn = 0; turn < 100; ++turn) co_await on.sleep_for(100'000);
	}(loop));
	EXPECT_EQ(held.size(), 18u);  // 20 units, without the two for control frames
	EXPECT_LT(sent, 60);
	while (end == Trouble::unsupported && sent < 60) {
		held.clear();
		loop.complete(wait(loop, held, 1));
		ASSERT_FALSE(held.empty());
	}
	EXPECT_EQ(sent, 60);
	loop.abandon_spawned();
}

TEST(OwnReceiveQueuesAtTheWatermark, OrEndTheConnectionThatAsksAndNoOther) {
	async::Loop loop;
	testing_tools::TwoTransports transports(loop);
	RcOptions options = published;
	options.units_max = 30;
	options.watermark = Watermark::close;
	transports.open(options);
	auto greedy = transports.connect(), other = transports.connect();
	int sent = 0;
	std::vector<Message> held;
	Trouble end = Trouble::unsupported;
	loop.spawn(send_units(*greedy.a, 60, sent));
	loop.complete(hold_all(*greedy.b, held, end));
	EXPECT_EQ(end, Trouble::no_memory);
	held.clear();
	loop.spawn(testing_tools::echo(*other.b));
	loop.complete([](Channel& channel) -> Task<void> {
		EXPECT_TRUE(co_await channel.send(bytes_of("still here?")));
		EXPECT_TRUE(co_await channel.receive());
	}(*other.a));
	loop.abandon_spawned();
}

}  // namespace
}  // namespace verbena::channel
