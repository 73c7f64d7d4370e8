// SPDX-License-Identifier: Apache-2.0
// Messages that the receiver fetches by RDMA READ, and the limits below which it does not.
#include "lib/channel/direct_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

using FetchedMessages = Direct;

TEST_F(FetchedMessages, LargeMessagesArriveWholeAndInOrderAmongSmallOnes) {
	const std::vector<std::size_t> sizes{
		1, 20'000, 16 << 10, (16 << 10) + 1, 5 << 20, 3, 128 << 10, (128 << 10) + 1, 900'000, 0, 2000};
	loop_.spawn([](Channel& from, const std::vector<std::size_t>& sizes) -> Task<void> {
		for (std::size_t i = 0; i < sizes.size(); ++i) {
			const auto content = pattern(sizes[i], static_cast<unsigned>(i + 1));
			const std::size_t head = std::min<std::size_t>(content.size(), i * 700);
			const auto sent = co_await from.send(std::span(content).first(head), std::span(content).subspan(head));
			EXPECT_TRUE(sent.has_value());
		}
	}(*a_, sizes));
	loop_.complete([](Channel& to, const std::vector<std::size_t>& sizes) -> Task<void> {
		for (std::size_t i = 0; i < sizes.size(); ++i) {
			const auto message = co_await to.receive();
			EXPECT_TRUE(message.has_value());
			if (!message) co_return;
			EXPECT_TRUE(std::ranges::equal(message->bytes(), pattern(sizes[i], static_cast<unsigned>(i + 1)))) << i;
		}
	}(*b_, sizes));
	loop_.run_until([&] { return transports_[0].memory().in_use() + transports_[1].memory().in_use() == 0; });
}

TEST_F(FetchedMessages, ABodyInRegisteredMemoryIsFetchedAtOnceAndThenSendIsDone) {
	const auto content = pattern(3 << 20, 5);
	const Place body = filled(*a_->memory(), content);
	bool sent = false;
	loop_.spawn([](Channel& from, Place body, bool& sent) -> Task<void> {
		const auto done = co_await from.send(bytes_of("head"), body);
		EXPECT_TRUE(done.has_value());
		sent = true;
		co_await from.send(bytes_of("next"));
	}(*a_, body, sent));
	loop_.complete([](Channel& to, std::span<const std::byte> content) -> Task<void> {
		const auto message = co_await to.receive();
		EXPECT_TRUE(std::ranges::equal(message->bytes().first(4), bytes_of("head")));
		EXPECT_TRUE(std::ranges::equal(message->bytes().subspan(4), content));
		const auto next = co_await to.receive();
		EXPECT_TRUE(std::ranges::equal(next->bytes(), bytes_of("next")));
	}(*b_, content));
	EXPECT_TRUE(sent);
	EXPECT_EQ(transports_[1].counters().reads, 1u);
	EXPECT_EQ(transports_[0].counters().windows_bound, 1u);
}

// The cost of sending one message: what each end did for it.
struct Cost {
	std::uint64_t frames, answers, reads;  // frames of the sender; frames and READs of the receiver
	bool operator==(const Cost&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Cost& cost) {
	return out << cost.frames << " frames, " << cost.answers << " answers, " << cost.reads << " reads";
}
Cost cost_of(RcTransport& from, RcTransport& to) {
	return {from.counters().frames_sent, to.counters().frames_sent, to.counters().reads};
}

template <class Body> Task<void> carry(Channel& from, Channel& to, Body body, std::span<const std::byte> content) {
	const async::Job sending(from.loop(), [](Channel& from, Body body) -> Task<void> {
		const auto sent = co_await from.send(bytes_of("head"), body);
		EXPECT_TRUE(sent.has_value());
	}(from, std::move(body)));
	const auto message = co_await to.receive();
	EXPECT_TRUE(message && std::ranges::equal(message->bytes().subspan(4), content)) << to.reason();
	while (!sending.done()) co_await async::NextTurn(from.loop());
}

TEST_F(FetchedMessages, ABodyInRegisteredMemoryIsNeverCopiedFrom4KiBOnAndTakesTwoFrames) {
	ASSERT_EQ(options_.share_min, 4096u);
	for (const std::size_t size : {std::size_t{4096}, std::size_t{5000}, std::size_t{16} << 10, std::size_t{1} << 20}) {
		open(options_);
		const auto content = pattern(size, 10);
		const Place body = filled(*a_->memory(), content);
		loop_.complete(carry(*a_, *b_, body, content));
		// The frame with the offer, and the frame that reports it as fetched.
		EXPECT_EQ(cost_of(transports_[0], transports_[1]), (Cost{.frames = 1, .answers = 1, .reads = 1})) << size;
	}
}

TEST_F(FetchedMessages, ASmallerBodyInRegisteredMemoryGoesInFrames) {
	const auto content = pattern(4095, 11);
	const Place body = filled(*a_->memory(), content);
	loop_.complete(carry(*a_, *b_, body, content));
	EXPECT_EQ(transports_[1].counters().reads, 0u);
	EXPECT_EQ(transports_[0].counters().windows_bound, 0u);
}

TEST_F(FetchedMessages, TheSmallerEagerMaxOfBothEndsCounts) {
	RcOptions low = options_;
	low.eager_max = 2000;
	open(options_, low);
	const auto small = pattern(1990, 12), large = pattern(2001, 13);
	for (int way : {0, 1}) {
		RcChannel &from = way == 0 ? *a_ : *b_, &to = way == 0 ? *b_ : *a_;
		const RcCounters& receiver = transports_[1 - static_cast<std::size_t>(way)].counters();
		loop_.complete(carry(from, to, std::span<const std::byte>(small), small));
		EXPECT_EQ(receiver.reads, 0u);
		loop_.complete(carry(from, to, std::span<const std::byte>(large), large));
		EXPECT_EQ(receiver.reads, 1u);
	}
}

TEST_F(FetchedMessages, AnEagerMaxOfNothingBreaksNoPeerWithoutDirectOperations) {
	RcOptions none = options_;
	none.eager_max = 0;
	none.direct_depth = 0;
	open(options_, none);
	const auto content = pattern(100'000, 14);
	loop_.complete(carry(*a_, *b_, std::span<const std::byte>(content), content));
	loop_.complete(carry(*b_, *a_, std::span<const std::byte>(content), content));
	EXPECT_EQ(transports_[0].counters().reads + transports_[1].counters().reads, 0u);
}

// A body that is not registered is copied part by part; a part is fetched while others are copied.
TEST_F(FetchedMessages, PartsOfABodyThatIsNotRegisteredAreUnderWayTogether) {
	const auto content = pattern(1 << 20, 15);
	loop_.complete(carry(*a_, *b_, std::span<const std::byte>(content), content));
	EXPECT_GE(transports_[0].counters().offers_most, 2u);
	EXPECT_GE(transports_[1].counters().reads, 8u);
}

TEST_F(FetchedMessages, FragmentsOnTheHeapNeedNoRegisteredMemory) {
	options_.eager_max = options_.share_min = options_.message_max;
	RcOptions on_heap = options_;
	on_heap.fragments_on_heap = true;
	on_heap.memory = {.max = 256 << 10, .region_bytes = 64 << 10};
	open(options_, on_heap);
	const auto content = pattern(1 << 20, 16);
	loop_.complete(carry(*a_, *b_, std::span<const std::byte>(content), content));
	EXPECT_EQ(transports_[1].memory().in_use(), 0u);
}

TEST_F(FetchedMessages, AnEndWithFragmentsOnTheHeapTakesNoOffers) {
	RcOptions on_heap = options_;
	on_heap.fragments_on_heap = true;
	open(options_, on_heap);
	loop_.spawn([](Channel& from) -> Task<void> {
		const std::vector<std::byte> large(100'000);
		co_await from.send(large);
	}(*a_));
	loop_.complete([](Channel& to) -> Task<void> {
		const auto message = co_await to.receive();
		EXPECT_EQ(message.error(), Trouble::protocol);
	}(*b_));
}

TEST_F(FetchedMessages, AHeadMayBeLargeWithAndWithoutABody) {
	const auto content = pattern(100'000, 9);
	loop_.spawn([](Channel& from, std::span<const std::byte> content) -> Task<void> {
		const Place empty = from.memory()->take(0), rest = filled(*from.memory(), content.subspan(60'000));
		co_await from.send(content, std::span<const std::byte>());
		co_await from.send(content, empty);
		co_await from.send(content.first(60'000), rest);
		co_await from.send(content.first(60'000), content.subspan(60'000));
	}(*a_, content));
	loop_.complete([](Channel& to, std::span<const std::byte> content) -> Task<void> {
		for (int i = 0; i < 4; ++i) {
			const auto message = co_await to.receive();
			EXPECT_TRUE(message && std::ranges::equal(message->bytes(), content)) << i << to.reason();
		}
	}(*b_, content));
}

TEST_F(FetchedMessages, AMessageForWhichThereIsNoMemoryWaitsForSome) {
	options_.memory = {.max = 3 << 20, .region_bytes = 1 << 20};
	open(options_);
	int taken = 0;
	loop_.spawn([](Channel& from) -> Task<void> {
		for (unsigned i = 0; i < 20; ++i) {
			const auto content = pattern(1'000'000, i);
			co_await from.send(content);
		}
	}(*a_));
	loop_.complete([](Channel& to, int& taken) -> Task<void> {
		std::vector<Message> held;
		for (unsigned i = 0; i < 20; ++i) {
			auto message = co_await to.receive();
			EXPECT_TRUE(message.has_value()) << to.reason();
			if (!message) co_return;
			EXPECT_TRUE(std::ranges::equal(message->bytes(), pattern(1'000'000, i)));
			held.push_back(std::move(*message));
			++taken;
			if (held.size() < 2) continue;
			co_await to.loop().sleep_for(1'000'000);  // a slow program
			held.clear();
		}
	}(*b_, taken));
	EXPECT_EQ(taken, 20);
	EXPECT_LE(transports_[1].memory().registered(), std::size_t{3} << 20);
}

TEST_F(FetchedMessages, WithWatermarkCloseTheConnectionThatAsksForTooMuchEnds) {
	options_.memory = {.max = 3 << 20, .region_bytes = 1 << 20};
	options_.watermark = Watermark::close;
	open(options_);
	auto [c, d] = transports_.connect();
	loop_.spawn([](Channel& from) -> Task<void> {
		const std::vector<std::byte> content(1'500'000);
		while (co_await from.send(content)) {}
	}(*a_));
	loop_.spawn(echo(*d));
	loop_.complete([](Channel& greedy, Channel& modest) -> Task<void> {
		std::vector<Message> held;
		while (auto message = co_await greedy.receive()) held.push_back(std::move(*message));
		EXPECT_FALSE(greedy.reason().empty());
		co_await modest.send(bytes_of("and the others?"));
		const auto answer = co_await modest.receive();
		EXPECT_TRUE(answer.has_value());
	}(*b_, *c));
	c.reset();
	loop_.abandon_spawned();
	d.reset();
}

TEST_F(FetchedMessages, CloseWaitsUntilWhatWasOfferedIsFetched) {
	loop_.spawn([](Channel& from) -> Task<void> {
		const auto content = pattern(600'000, 6);
		co_await from.send(content);
		from.close();
	}(*a_));
	loop_.complete([](Channel& to) -> Task<void> {
		const auto message = co_await to.receive();
		EXPECT_TRUE(message.has_value());
		if (message) {
			EXPECT_TRUE(std::ranges::equal(message->bytes(), pattern(600'000, 6)));
		}
		const auto end = co_await to.receive();
		EXPECT_EQ(end.error(), Trouble::closed);
	}(*b_));
	EXPECT_EQ(transports_[1].counters().channels_lost, 0u);
}

TEST_F(FetchedMessages, BothSidesSendLargeMessagesWithoutReceivingFirst) {
	int done = 0;
	const auto talk = [](Channel& channel, unsigned seed, int& done) -> Task<void> {
		std::vector<async::Job> jobs;
		int sent = 0;
		const auto send = [](Channel& channel, unsigned seed, int& sent) -> Task<void> {
			const auto content = pattern(300'000, seed);
			co_await channel.send(content);
			++sent;
		};
		for (unsigned i = 0; i < 20; ++i) jobs.emplace_back(channel.loop(), send(channel, seed + i, sent));
		for (unsigned i = 0; i < 20; ++i) {
			const auto message = co_await channel.receive();
			EXPECT_TRUE(message && message->bytes().size() == 300'000) << channel.reason();
		}
		while (sent < 20) co_await async::NextTurn(channel.loop());
		++done;
	};
	loop_.spawn(talk(*a_, 100, done));
	loop_.spawn(talk(*b_, 200, done));
	loop_.run_until([&] { return done == 2; });
}

TEST_F(FetchedMessages, APeerWithoutDirectOperationsGetsEverythingInFrames) {
	options_.direct_depth = 0;
	open(options_);
	EXPECT_FALSE(a_->direct());
	loop_.spawn(echo(*b_));
	loop_.complete([](Channel& channel) -> Task<void> {
		const auto content = pattern(200'000, 7);
		co_await channel.send(content);
		const auto back = co_await channel.receive();
		EXPECT_TRUE(std::ranges::equal(back->bytes(), content));
		const auto lease = co_await channel.share(Place(), Right::read);
		EXPECT_EQ(lease.error(), Trouble::unsupported);
	}(*a_));
}

}  // namespace
}  // namespace verbena::channel
