// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/path_table.h"

#include <gtest/gtest.h>
#include <set>

namespace verbena::engine {
namespace {

wire::AddressPair addresses(std::uint32_t destination, std::uint8_t traffic_class = 0) {
	wire::AddressPair pair{};
	pair.source[15] = 1;
	std::memcpy(pair.destination, &destination, sizeof destination);
	pair.traffic_class = traffic_class;
	return pair;
}

struct Path {
	explicit Path(const wire::AddressPair& a) : addresses_(a) {}
	const wire::AddressPair& addresses() const { return addresses_; }
	std::uint64_t published() const { return published_; }

	wire::AddressPair addresses_;
	std::uint64_t published_ = 0;
	bool in_use = false;
};

class Paths : public ::testing::Test {
protected:
	Path& add(std::uint32_t destination, std::uint8_t traffic_class = 0) {
		return table.add(std::make_unique<Path>(addresses(destination, traffic_class)), now);
	}
	// Lets time pass as the engine does, which sweeps when a sweep is due.
	std::size_t run(Nanoseconds time) {
		std::size_t retired = 0;
		const Nanoseconds until = now + time;
		while (table.next_sweep() <= until) {
			now = table.next_sweep();
			retired += table.retire_idle(now, in_use).size();
		}
		now = until;
		return retired;
	}

	static bool in_use(const Path& path) { return path.in_use; }
	using Table = PathTable<Path>;
	Table table;
	Nanoseconds now = 5 * second;
};

TEST_F(Paths, AreFoundByBothAddressesAndTheTrafficClass) {
	Path& plain = add(7);
	Path& urgent = add(7, 8);
	EXPECT_EQ(table.find(addresses(7)), &plain);
	EXPECT_EQ(table.find(addresses(7, 8)), &urgent);
	EXPECT_EQ(table.find(addresses(7, 9)), nullptr);
	EXPECT_EQ(table.find(addresses(8)), nullptr);
	EXPECT_EQ(table.find_between(addresses(7, 9)), &plain);
	wire::AddressPair answer = addresses(7, 3);
	std::swap(answer.source, answer.destination);
	EXPECT_EQ(table.find_answered_by(answer), &plain);
	EXPECT_EQ(table.find_answered_by(addresses(7)), nullptr);
	std::vector<Path*> answered;
	table.for_each_answered_by(answer, [&](Path& path) { answered.push_back(&path); });
	EXPECT_EQ(answered, (std::vector<Path*>{&plain, &urgent}));
	table.for_each_answered_by(addresses(7), [](Path&) { FAIL() << "the addresses are those of a request"; });
}

TEST_F(Paths, ThatNobodyUsesLeaveAfterAMinute) {
	add(1);
	add(2).in_use = true;
	EXPECT_EQ(run(Table::idle_max - second), 0u);
	EXPECT_EQ(run(2 * Table::sweep_interval), 1u);
	EXPECT_EQ(table.find(addresses(1)), nullptr);
	EXPECT_NE(table.find(addresses(2)), nullptr);
	EXPECT_EQ(run(10 * Table::idle_max), 0u) << "a queue pair may be silent for as long as it likes";
	table.find(addresses(2))->in_use = false;
	EXPECT_EQ(run(2 * Table::sweep_interval), 1u);
	EXPECT_TRUE(table.empty());
	EXPECT_EQ(table.next_sweep(), never);
}

TEST_F(Paths, ThatCarryBytesStay) {
	Path& busy = add(1);
	for (int i = 0; i < 10; ++i) {
		++busy.published_;
		EXPECT_EQ(run(Table::idle_max / 2), 0u);
	}
	EXPECT_EQ(run(Table::idle_max + 2 * Table::sweep_interval), 1u);
}

TEST_F(Paths, AreAtMostAThousandAndThoseThatWereIdleForLongestMakeRoom) {
	for (std::uint32_t i = 0; i < Table::paths_max; ++i) {
		add(i);
		now += 1'000'000;
	}
	ASSERT_TRUE(table.full());
	++table.find(addresses(0))->published_;
	table.find(addresses(1))->in_use = true;
	const auto gone = table.make_room(now, in_use);
	ASSERT_EQ(gone.size(), Table::made_room_max);
	EXPECT_EQ(table.size(), Table::paths_max - gone.size());
	for (std::uint32_t i = 0; i < Table::paths_max; ++i)
		EXPECT_EQ(table.find(addresses(i)) == nullptr, i >= 2 && i < 2 + Table::made_room_max) << i;
}

TEST_F(Paths, ThatAreAllInUseMakeNoRoom) {
	for (std::uint32_t i = 0; i < Table::paths_max; ++i) add(i).in_use = true;
	EXPECT_TRUE(table.make_room(now, in_use).empty());
	EXPECT_EQ(run(3 * Table::idle_max), 0u);
	EXPECT_EQ(table.size(), Table::paths_max);
}

TEST_F(Paths, OfClientsWhoseAddressesChangeDoNotGather) {
	std::size_t most = 0;
	for (std::uint32_t client = 0; client < 100'000; ++client) {
		if (table.full()) {
			ASSERT_FALSE(table.make_room(now, in_use).empty());
		}
		++add(client).published_;
		now += 1'000'000;
		table.retire_idle(now, in_use);
		most = std::max(most, table.size());
	}
	EXPECT_EQ(most, Table::paths_max);
	const std::size_t left = table.size();
	EXPECT_EQ(run(2 * Table::idle_max), left);
}

}  // namespace
}  // namespace verbena::engine
