// SPDX-License-Identifier: Apache-2.0
// Direct operations.
#include "lib/channel/direct_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

TEST_F(Direct, ThePeerReadsMemoryThatIsSharedWithIt) {
	ASSERT_TRUE(a_->direct());
	const auto content = pattern(100'000, 1);
	loop_.complete([](Channel& owner, Channel& reader, std::span<const std::byte> content) -> Task<void> {
		const Place shared = filled(*owner.memory(), content);
		auto lease = co_await owner.share(shared, Right::read);
		EXPECT_TRUE(lease.has_value());
		const RemoteMemory remote = co_await told(owner, reader, lease->remote());
		EXPECT_EQ(remote, lease->remote());
		const Place whole = reader.memory()->take(content.size());
		const auto read = co_await reader.read(whole, remote);
		EXPECT_TRUE(read.has_value());
		EXPECT_TRUE(std::ranges::equal(whole.bytes(), content));
		const Place part = reader.memory()->take(1000);
		const RemoteMemory of = remote.part(5000, 1000);
		co_await reader.read(part, of);
		EXPECT_TRUE(std::ranges::equal(part.bytes(), content.subspan(5000, 1000)));
		co_await owner.end(std::move(*lease));
	}(*a_, *b_, content));
}

Task<void> read_into(Channel& reader, Place into, RemoteMemory from, int& left) {
	const auto read = co_await reader.read(std::move(into), from);
	EXPECT_TRUE(read.has_value());
	--left;
}

// The loops of both ends poll until a long transfer has ended: one that falls asleep shortly before
// costs more time than the transfer.
TEST_F(Direct, BothEndsPollWhileALongTransferLasts) {
	constexpr Nanoseconds length = 300'000;  // bytes, each of which is expected to take 1 ns
	MemoryPool& pool = transports_[0].memory();
	Buffer source = pool.take(length);
	const Nanoseconds start = loop_.now();
	const Lease lease = share_with_b(Place(source, 0, length));
	const Nanoseconds shared = loop_.expected();
	EXPECT_GE(shared, start + length);
	EXPECT_LE(shared, loop_.now() + length);
	loop_.complete([](Channel& reader, RemoteMemory from, Place into) -> Task<void> {
		const auto read = co_await reader.read(std::move(into), from);
		EXPECT_TRUE(read.has_value());
	}(*b_, lease.remote(), Place(transports_[1].memory().take(length), 0, length)));
	EXPECT_GT(loop_.expected(), shared);
}

TEST_F(Direct, SmallReadsOfOneTurnArePostedTogether) {
	constexpr int count = 100;  // more than the send queue holds
	const auto content = pattern(count * 64, 7);
	RemoteMemory remote;
	Lease lease;
	loop_.complete([](Channel& owner, Channel& reader, std::span<const std::byte> content, Lease& kept,
					   RemoteMemory& remote) -> Task<void> {
		const Place shared = filled(*owner.memory(), content);
		auto lease = co_await owner.share(shared, Right::read);
		remote = co_await told(owner, reader, lease->remote());
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
	// Those of the first turn are posted by one call, the others as there is room for them.
	EXPECT_LT(
		transports_[1].counters().send_posts - posts, static_cast<std::uint64_t>(count) - options_.direct_depth + 2);
	lease = {};
}

TEST_F(Direct, ThePeerWritesMemoryThatIsSharedWithIt) {
	const auto content = pattern(70'000, 2);
	loop_.complete([](Channel& owner, Channel& writer, std::span<const std::byte> content) -> Task<void> {
		Buffer target = owner.memory()->take(100'000);
		const Place middle(target, 10'000, content.size());
		auto lease = co_await owner.share(middle, Right::write);
		const RemoteMemory remote = co_await told(owner, writer, lease->remote());
		const Place from = filled(*writer.memory(), content);
		const auto written = co_await writer.write(remote, from);
		EXPECT_TRUE(written.has_value());
		const auto ended = co_await owner.end(std::move(*lease));
		EXPECT_TRUE(ended.has_value());
		EXPECT_TRUE(std::ranges::equal(middle.bytes(), content));
	}(*a_, *b_, content));
}

// Misuses of a key by a peer: each of them ends the connection and leaves the memory unchanged.
enum class Misuse { after_the_end, beyond_the_end, write_to_what_is_to_be_read, guessed_key };
class Misused : public Direct, public ::testing::WithParamInterface<Misuse> {};

TEST_P(Misused, EndsTheConnectionAndNothingElse) {
	loop_.complete([](Channel& owner, Channel& thief, Misuse misuse) -> Task<void> {
		const auto secret = pattern(4096, 3);
		const Place shared(filled(*owner.memory(), secret), 0, 2048);
		auto lease = co_await owner.share(shared, Right::read);
		RemoteMemory remote = co_await told(owner, thief, lease->remote());
		const Place loot = thief.memory()->take(4096);
		std::ranges::fill(loot.bytes(), std::byte{});
		if (misuse == Misuse::after_the_end) co_await owner.end(std::move(*lease));
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
		EXPECT_TRUE(std::ranges::equal(shared.buffer.bytes(), secret));
		EXPECT_TRUE(std::ranges::none_of(loot.bytes(), [](std::byte byte) { return byte != std::byte{}; }));
	}(*a_, *b_, GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Ways, Misused,
	::testing::Values(
		Misuse::after_the_end, Misuse::beyond_the_end, Misuse::write_to_what_is_to_be_read, Misuse::guessed_key));

TEST_F(Direct, MoreOperationsThanTheQueueHoldsAllEndAndRegisterNothing) {
	constexpr std::size_t count = 100, each = 5000;
	const auto content = pattern(count * each, 8);
	const auto round = [](Channel& owner, Channel& reader, std::span<const std::byte> content) -> Task<void> {
		const Place shared = filled(*owner.memory(), content);
		std::vector<Lease> leases;
		for (std::size_t i = 0; i < count; ++i) {
			const Place part(shared.buffer, i * each, each);
			auto lease = co_await owner.share(part, Right::read);
			EXPECT_TRUE(lease.has_value());
			leases.push_back(std::move(*lease));
		}
		co_await told(owner, reader, leases.front().remote());
		std::size_t done = 0;
		const auto one = [](Channel& reader, RemoteMemory remote, std::span<const std::byte> expected,
							 std::size_t& done) -> Task<void> {
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
	const Lease lease = share_with_b(filled(*a_->memory(), pattern(1 << 20, 4)));
	{
		async::Job job(loop_, [](Channel& reader, RemoteMemory remote) -> Task<void> {
			const Place place = reader.memory()->take(1 << 20);
			co_await reader.read(place, remote);
			ADD_FAILURE() << "it was abandoned";
		}(*b_, lease.remote()));
		loop_.run_until([&] { return transports_[1].counters().reads == 1; });
	}
	EXPECT_GT(transports_[1].memory().in_use(), 0u);
	loop_.run_until([&] { return transports_[1].memory().in_use() == 0; });
}

class AbandonedReads : public Direct {
protected:
	// Destroys b's channel with a READ in flight.
	void end_while_reading() {
		const Lease lease = share_with_b(filled(*a_->memory(), pattern(1 << 20, 4)));
		const async::Job job(loop_, [](Channel& reader, RemoteMemory remote) -> Task<void> {
			const Place place = reader.memory()->take(1 << 20);
			co_await reader.read(place, remote);
			ADD_FAILURE() << "it was abandoned";
		}(*b_, lease.remote()));
		loop_.run_until([&] { return transports_[1].counters().reads == 1; });
		b_.reset();
	}
};

TEST_F(AbandonedReads, KeepTheirBuffersWhileTheQueuePairDrains) {
	end_while_reading();
	EXPECT_GT(transports_[1].memory().in_use(), 0u);
	loop_.run_until([&] { return transports_[1].memory().in_use() == 0; });
	EXPECT_EQ(transports_[1].draining(), 0u);
}

TEST_F(AbandonedReads, KeepNoBufferOfAProgramThatFreesItsMemory) {
	end_while_reading();
	transports_[1].abandon_draining();
	EXPECT_EQ(transports_[1].memory().in_use() + transports_[1].draining(), 0u);
}

TEST_F(Direct, AnOperationMayOutliveItsChannel) {
	const Lease lease = share_with_b(filled(*a_->memory(), pattern(1 << 20, 4)));
	async::Job job(loop_, [](Channel& reader, RemoteMemory remote) -> Task<void> {
		const Place place = reader.memory()->take(1 << 20);
		co_await reader.read(place, remote);
		ADD_FAILURE() << "its channel is gone";
	}(*b_, lease.remote()));
	loop_.run_until([&] { return transports_[1].counters().reads == 1; });
	b_.reset();
	job = {};  // destroys the operation, which must not write into the destroyed channel
}

}  // namespace
}  // namespace verbena::channel
