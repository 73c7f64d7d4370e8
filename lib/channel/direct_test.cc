// Direct operations, and messages that the receiver fetches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;
using testing_tools::bytes_of;
using testing_tools::echo;

class Direct : public ::testing::Test {
protected:
	void open(const RcOptions& options) {
		transports_.open(options);
		auto [a, b] = transports_.connect();
		a_ = std::move(a);
		b_ = std::move(b);
	}
	void SetUp() override { open(options_); }
	void TearDown() override {
		loop_.abandon_spawned();
		a_.reset();
		b_.reset();
		for (RcTransport* transport : {&transports_[0], &transports_[1]}) EXPECT_EQ(transport->windows_in_use(), 0u);
	}

	RcOptions options_{.units_start = 16, .units_max = 4096, .connections_max = 64};
	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
	std::unique_ptr<RcChannel> a_, b_;
};

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
	std::vector<std::byte> bytes(size);
	std::minstd_rand random(seed);
	std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() >> 8); });
	return bytes;
}

Buffer filled(MemoryPool& pool, std::span<const std::byte> with) {
	Buffer buffer = pool.take(with.size());
	std::ranges::copy(with, buffer.data());
	return buffer;
}

// Tells the other end of the channel, so that a window is bound there before anybody uses it.
Task<RemoteMemory> told(Channel& from, Channel& to, RemoteMemory remote) {
	co_await from.send(std::as_bytes(std::span(&remote, 1)));
	const auto message = co_await to.receive();
	std::memcpy(&remote, message->bytes().data(), sizeof remote);
	co_return remote;
}

TEST_F(Direct, ThePeerReadsWhatWasLentToIt) {
	ASSERT_TRUE(a_->direct());
	const auto content = pattern(100'000, 1);
	loop_.complete([](Channel& lender, Channel& reader, std::span<const std::byte> content) -> Task<void> {
		const Place lent = filled(*lender.memory(), content);
		auto lease = co_await lender.lend(lent, Right::read);
		EXPECT_TRUE(lease.has_value());
		const RemoteMemory remote = co_await told(lender, reader, lease->remote());
		EXPECT_EQ(remote, lease->remote());
		const Place whole = reader.memory()->take(content.size());
		const auto read = co_await reader.read(whole, remote);
		EXPECT_TRUE(read.has_value());
		EXPECT_TRUE(std::ranges::equal(whole.bytes(), content));
		const Place part = reader.memory()->take(1000);
		const RemoteMemory of = remote.part(5000, 1000);
		co_await reader.read(part, of);
		EXPECT_TRUE(std::ranges::equal(part.bytes(), content.subspan(5000, 1000)));
		co_await lender.end(std::move(*lease));
	}(*a_, *b_, content));
}

Task<void> read_into(Channel& reader, Place into, RemoteMemory from, int& left) {
	const auto read = co_await reader.read(std::move(into), from);
	EXPECT_TRUE(read.has_value());
	--left;
}

TEST_F(Direct, SmallReadsOfOneTurnArePostedTogether) {
	constexpr int count = 100;  // more than the send queue takes at once
	const auto content = pattern(count * 64, 7);
	RemoteMemory remote;
	Lease lease;
	loop_.complete(
		[](Channel& lender, Channel& reader, std::span<const std::byte> content, Lease& kept, RemoteMemory& remote) -> Task<void> {
			const Place lent = filled(*lender.memory(), content);
			auto lease = co_await lender.lend(lent, Right::read);
			remote = co_await told(lender, reader, lease->remote());
			kept = std::move(*lease);
		}(*a_, *b_, content, lease, remote));
	const Buffer whole = b_->memory()->take(content.size());
	const std::uint64_t posts = transports_[1].counters().send_posts, reads = transports_[1].counters().reads;
	int left = count;
	for (std::uint32_t i = 0; i < count; ++i) {
		const Place into(whole, i * 64, 64);
		loop_.spawn(read_into(*b_, into, remote.part(i * 64, 64), left));
	}
	loop_.run_until([&] { return left == 0; });
	EXPECT_TRUE(std::ranges::equal(whole.bytes(), content));
	EXPECT_EQ(transports_[1].counters().reads - reads, count);
	// The first turn's by one call, and the others as room for them comes.
	EXPECT_LT(transports_[1].counters().send_posts - posts, static_cast<std::uint64_t>(count) - options_.direct_depth + 2);
	lease = {};
}

TEST_F(Direct, ThePeerWritesWhereItMay) {
	const auto content = pattern(70'000, 2);
	loop_.complete([](Channel& lender, Channel& writer, std::span<const std::byte> content) -> Task<void> {
		Buffer target = lender.memory()->take(100'000);
		const Place middle(target, 10'000, content.size());
		auto lease = co_await lender.lend(middle, Right::write);
		const RemoteMemory remote = co_await told(lender, writer, lease->remote());
		const Place from = filled(*writer.memory(), content);
		const auto written = co_await writer.write(remote, from);
		EXPECT_TRUE(written.has_value());
		const auto ended = co_await lender.end(std::move(*lease));
		EXPECT_TRUE(ended.has_value());
		EXPECT_TRUE(std::ranges::equal(middle.bytes(), content));
	}(*a_, *b_, content));
}

// What a peer does that holds on to a key: each of these ends the connection, and the memory keeps what it had.
enum class Misuse { after_the_end, beyond_the_end, write_to_what_is_to_be_read, guessed_key };
class Misused : public Direct, public ::testing::WithParamInterface<Misuse> {};

TEST_P(Misused, EndsTheConnectionAndNothingElse) {
	loop_.complete([](Channel& lender, Channel& thief, Misuse misuse) -> Task<void> {
		const auto secret = pattern(4096, 3);
		const Place lent(filled(*lender.memory(), secret), 0, 2048);
		auto lease = co_await lender.lend(lent, Right::read);
		RemoteMemory remote = co_await told(lender, thief, lease->remote());
		const Place loot = thief.memory()->take(4096);
		std::ranges::fill(loot.bytes(), std::byte{});
		if (misuse == Misuse::after_the_end) co_await lender.end(std::move(*lease));
		if (misuse == Misuse::beyond_the_end) remote.length = 4096;
		if (misuse == Misuse::guessed_key) remote.rkey ^= 1;
		const Place place(loot.buffer, 0, remote.length);
		if (misuse == Misuse::write_to_what_is_to_be_read) {
			const auto written = co_await thief.write(remote, place);
			EXPECT_FALSE(written.has_value());
		} else {
			const auto read = co_await thief.read(place, remote);
			EXPECT_FALSE(read.has_value());
		}
		const auto next = co_await thief.receive();
		EXPECT_EQ(next.error(), Trouble::lost);
		EXPECT_TRUE(std::ranges::equal(lent.buffer.bytes(), secret));
		EXPECT_TRUE(std::ranges::none_of(loot.bytes(), [](std::byte byte) { return byte != std::byte{}; }));
	}(*a_, *b_, GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Ways, Misused,
	::testing::Values(Misuse::after_the_end, Misuse::beyond_the_end, Misuse::write_to_what_is_to_be_read, Misuse::guessed_key));

TEST_F(Direct, MoreOperationsThanTheQueueHoldsAllEndAndRegisterNothing) {
	constexpr std::size_t count = 100, each = 5000;
	const auto content = pattern(count * each, 8);
	const auto round = [](Channel& lender, Channel& reader, std::span<const std::byte> content) -> Task<void> {
		const Place lent = filled(*lender.memory(), content);
		std::vector<Lease> leases;
		for (std::size_t i = 0; i < count; ++i) {
			const Place part(lent.buffer, i * each, each);
			auto lease = co_await lender.lend(part, Right::read);
			EXPECT_TRUE(lease.has_value());
			leases.push_back(std::move(*lease));
		}
		co_await told(lender, reader, leases.front().remote());
		std::size_t done = 0;
		const auto one = [](Channel& reader, RemoteMemory remote, std::span<const std::byte> expected, std::size_t& done) -> Task<void> {
			const Place place = reader.memory()->take(each);
			const auto read = co_await reader.read(place, remote);
			EXPECT_TRUE(read.has_value());
			EXPECT_TRUE(std::ranges::equal(place.bytes(), expected));
			++done;
		};
		std::vector<async::Job> jobs;
		for (std::size_t i = 0; i < count; ++i)
			jobs.emplace_back(reader.loop(), one(reader, leases[i].remote(), content.subspan(i * each, each), done));
		while (done < count) co_await async::NextTurn(reader.loop());
	};
	loop_.complete(round(*a_, *b_, content));
	const std::uint64_t registered = transports_[0].memory().counters().registrations;
	loop_.complete(round(*a_, *b_, content));
	EXPECT_EQ(transports_[0].memory().counters().registrations, registered);
	loop_.run_until([&] { return transports_[0].windows_in_use() == 0; });
}

TEST_F(Direct, AnAbandonedReadKeepsItsBufferUntilTheAdapterIsDone) {
	const Place lent = filled(*a_->memory(), pattern(1 << 20, 4));
	std::optional<Lease> lease;
	loop_.complete([](Channel& lender, Channel& reader, Place lent, std::optional<Lease>& lease) -> Task<void> {
		auto lending = co_await lender.lend(lent, Right::read);
		lease = std::move(*lending);
		co_await told(lender, reader, lease->remote());
	}(*a_, *b_, lent, lease));
	{
		async::Job job(loop_, [](Channel& reader, RemoteMemory remote) -> Task<void> {
			const Place place = reader.memory()->take(1 << 20);
			co_await reader.read(place, remote);
			ADD_FAILURE() << "it was abandoned";
		}(*b_, lease->remote()));
		loop_.run_until([&] { return transports_[1].counters().reads == 1; });
	}
	EXPECT_GT(transports_[1].memory().in_use(), 0u);
	loop_.run_until([&] { return transports_[1].memory().in_use() == 0; });
}

TEST_F(Direct, AnOperationMayOutliveItsChannel) {
	const Place lent = filled(*a_->memory(), pattern(1 << 20, 4));
	std::optional<Lease> lease;
	loop_.complete([](Channel& lender, Channel& reader, Place lent, std::optional<Lease>& lease) -> Task<void> {
		auto lending = co_await lender.lend(lent, Right::read);
		lease = std::move(*lending);
		co_await told(lender, reader, lease->remote());
	}(*a_, *b_, lent, lease));
	async::Job job(loop_, [](Channel& reader, RemoteMemory remote) -> Task<void> {
		const Place place = reader.memory()->take(1 << 20);
		co_await reader.read(place, remote);
		ADD_FAILURE() << "its channel is gone";
	}(*b_, lease->remote()));
	loop_.run_until([&] { return transports_[1].counters().reads == 1; });
	b_.reset();
	job = {};  // writes into nothing of the channel's
}

// Messages that are fetched.

TEST_F(Direct, LargeMessagesArriveWholeAndInOrderAmongSmallOnes) {
	const std::vector<std::size_t> sizes{1, 20'000, 16 << 10, (16 << 10) + 1, 5 << 20, 3, 128 << 10, (128 << 10) + 1, 900'000, 0, 2000};
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

TEST_F(Direct, ABodyInRegisteredMemoryIsFetchedAtOnceAndThenSendIsDone) {
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

TEST_F(Direct, AHeadMayBeLargeWithAndWithoutABody) {
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

TEST_F(Direct, AMessageForWhichThereIsNoMemoryWaitsForSome) {
	options_.memory = {.max = 3 << 20, .region_bytes = 1 << 20};
	a_.reset();
	b_.reset();
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

TEST_F(Direct, WithWatermarkCloseTheConnectionThatAsksForTooMuchEnds) {
	options_.memory = {.max = 3 << 20, .region_bytes = 1 << 20};
	options_.watermark = Watermark::close;
	a_.reset();
	b_.reset();
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

TEST_F(Direct, CloseWaitsUntilWhatWasOfferedIsFetched) {
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

TEST_F(Direct, BothSidesSendLargeMessagesWithoutReceivingFirst) {
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

TEST_F(Direct, APeerWithoutDirectOperationsGetsEverythingInFrames) {
	a_.reset();
	b_.reset();
	options_.direct_depth = 0;
	open(options_);
	EXPECT_FALSE(a_->direct());
	loop_.spawn(echo(*b_));
	loop_.complete([](Channel& channel) -> Task<void> {
		const auto content = pattern(200'000, 7);
		co_await channel.send(content);
		const auto back = co_await channel.receive();
		EXPECT_TRUE(std::ranges::equal(back->bytes(), content));
		const auto lease = co_await channel.lend({}, Right::read);
		EXPECT_EQ(lease.error(), Trouble::unsupported);
	}(*a_));
}

}  // namespace
}  // namespace verbena::channel
