// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/rights_table.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "nic/memory/key_table.h"

namespace verbena::memory {
namespace {

constexpr std::uint32_t key = 0x123456'07;

class Rights : public testing::Test {
protected:
	Rights() : table(std::make_unique<RightsTable>()) { publisher.attach(table.get()); }

	static KeyRights region(std::uint32_t of_key = key) {
		return {.key = of_key,
			.protection_domain = 3,
			.access = remote_write | remote_read,
			.backing = Backing::heap,
			.descriptor = 9,
			.begin = 0x1000,
			.end = 0x3000,
			.delta = 0x7000'0000,
			.file = 77,
			.offset = 4096};
	}
	bool has(std::uint32_t of_key) { return read_key(*table, of_key, seen); }

	std::unique_ptr<RightsTable> table;
	RightsPublisher publisher;
	Seen<KeyRights> seen;
};

TEST_F(Rights, ARegionIsReadAsItWasPublished) {
	EXPECT_FALSE(has(key));
	EXPECT_TRUE(publisher.publish(region()));
	ASSERT_TRUE(has(key));
	EXPECT_EQ(seen.rights, region());
	EXPECT_TRUE(unchanged(seen));
}

TEST_F(Rights, AReaderKeepsARightAsLongAsItIsUnchanged) {
	RightsReader reader(*table);
	EXPECT_EQ(reader.key(key), nullptr);
	publisher.publish(region());
	const Seen<KeyRights>* const first = reader.key(key);
	ASSERT_NE(first, nullptr);
	EXPECT_EQ(reader.key(key), first);
	EXPECT_EQ(first->rights, region());

	KeyRights other = region();
	other.access = remote_read;
	publisher.publish(other);
	EXPECT_FALSE(unchanged(*first));
	ASSERT_NE(reader.key(key), nullptr);
	EXPECT_EQ(reader.key(key)->rights, other);

	publisher.withdraw_key(key);
	EXPECT_EQ(reader.key(key), nullptr);
	publisher.publish(region());
	ASSERT_NE(reader.key(key), nullptr);
	EXPECT_EQ(reader.key(key)->rights, region());
}

TEST_F(Rights, AReaderThatLooksForAnotherKeyFindsThatOne) {
	RightsReader reader(*table);
	publisher.publish(region());
	publisher.publish(region(key + 256));
	for (const std::uint32_t each : {key, key + 256, key}) {
		ASSERT_NE(reader.key(each), nullptr);
		EXPECT_EQ(reader.key(each)->rights, region(each));
	}
	EXPECT_EQ(reader.key(key ^ 1), nullptr);
	EXPECT_EQ(reader.key(0), nullptr);
	ASSERT_NE(reader.key(key), nullptr);
}

TEST_F(Rights, AReaderSeesThatAQueuePairHasGone) {
	RightsReader reader(*table);
	publisher.add_block(1);
	const QueuePairRights rights{.qpn = RightsTable::block_size + 5, .destination_qpn = 7, .access = remote_write};
	EXPECT_EQ(reader.queue_pair(rights.qpn), nullptr);
	publisher.publish(rights);
	ASSERT_NE(reader.queue_pair(rights.qpn), nullptr);
	EXPECT_EQ(reader.queue_pair(rights.qpn)->rights, rights);
	publisher.withdraw_queue_pair(rights.qpn);
	EXPECT_EQ(reader.queue_pair(rights.qpn), nullptr);
	EXPECT_EQ(reader.queue_pair(0), nullptr);
}

TEST_F(Rights, AKeyWithAnotherTagOrTheKeyZeroGivesNoRight) {
	publisher.publish(region());
	EXPECT_FALSE(has(key ^ 1));
	EXPECT_FALSE(has(0));
}

TEST_F(Rights, ARangeIsCheckedWithoutOverflow) {
	const KeyRights rights = region();
	EXPECT_TRUE(rights.contains(0x1000, 0x2000));
	EXPECT_TRUE(rights.contains(0x3000, 0));
	EXPECT_FALSE(rights.contains(0xfff, 1));
	EXPECT_FALSE(rights.contains(0x1001, 0x2000));
	EXPECT_FALSE(rights.contains(~std::uint64_t{0}, 2));
}

TEST_F(Rights, AReaderSeesThatARightWasWithdrawnOrReplacedAfterItsFirstLook) {
	publisher.publish(region());
	ASSERT_TRUE(has(key));
	EXPECT_TRUE(publisher.withdraw_key(key));
	EXPECT_FALSE(unchanged(seen));
	EXPECT_FALSE(has(key));
	EXPECT_FALSE(publisher.withdraw_key(key));

	publisher.publish(region());
	ASSERT_TRUE(has(key));
	publisher.publish(region());
	EXPECT_FALSE(unchanged(seen));
}

TEST_F(Rights, APlaceThatIsReusedBelongsToTheNewKeyAlone) {
	publisher.publish(region());
	publisher.withdraw_key(key);
	const std::uint32_t next = key + 1;
	EXPECT_TRUE(publisher.publish(region(next)));
	EXPECT_FALSE(has(key));
	EXPECT_TRUE(has(next));
}

TEST_F(Rights, AKeyWhosePlaceIsTakenIsNotPublished) {
	const std::uint32_t other = key + (RightsTable::keys_max << 8);
	EXPECT_TRUE(publisher.publish(region()));
	EXPECT_FALSE(publisher.publish(region(other)));
	EXPECT_FALSE(has(other));
	EXPECT_FALSE(publisher.withdraw_key(other));
	EXPECT_TRUE(has(key));
}

TEST_F(Rights, TheOwnerFindsAndVisitsWhatItHasPublished) {
	publisher.publish(region());
	publisher.publish(region(key + 256));
	KeyRights found;
	EXPECT_TRUE(publisher.find(key ^ 1, found));  // whatever the tag
	EXPECT_EQ(found, region());
	EXPECT_FALSE(publisher.find(key + 512, found));
	int visited = 0;
	publisher.for_each_key([&](const KeyRights&) { ++visited; });
	EXPECT_EQ(visited, 2);
}

TEST_F(Rights, QueuePairsOfTheFirstBlocksArePublished) {
	constexpr std::uint32_t block = 0x333, qpn = block << 12 | 5;
	const QueuePairRights rights{.qpn = qpn,
		.destination_qpn = 8,
		.protection_domain = 3,
		.access = remote_read,
		.reads_max = 16,
		.first_psn = 99,
		.peer = 0xabcd'ef01'2345'6789};
	Seen<QueuePairRights> pair;
	publisher.publish(rights);
	EXPECT_FALSE(read_queue_pair(*table, qpn, pair));
	publisher.add_block(block);
	publisher.publish(rights);
	ASSERT_TRUE(read_queue_pair(*table, qpn, pair));
	EXPECT_EQ(pair.rights, rights);
	EXPECT_FALSE(read_queue_pair(*table, qpn + 1, pair));
	ASSERT_TRUE(read_queue_pair(*table, qpn, pair));
	publisher.withdraw_queue_pair(qpn);
	EXPECT_FALSE(unchanged(pair));
	EXPECT_FALSE(read_queue_pair(*table, qpn, pair));

	for (std::uint32_t more = 1; more <= RightsTable::blocks_max; ++more) publisher.add_block(block + more);
	EXPECT_EQ(table->place_of_queue_pair((block + RightsTable::blocks_max) << 12), RightsTable::queue_pairs_max);
	EXPECT_EQ(table->place_of_queue_pair(0xffffff), RightsTable::queue_pairs_max);
}

TEST_F(Rights, WithoutATableNothingIsPublished) {
	publisher.publish(region());
	publisher.attach(nullptr);
	EXPECT_FALSE(publisher.publish(region(key + 256)));
	EXPECT_FALSE(publisher.withdraw_key(key));
	EXPECT_TRUE(has(key));
}

// All fields of a version have the same number, so a mixture of two versions shows.
TEST_F(Rights, AReaderNeverSeesAMixtureOfTwoVersions) {
	constexpr std::uint64_t versions = 200'000;
	std::atomic<bool> ended{false};
	std::thread writer([&] {
		for (std::uint64_t i = 1; i <= versions; ++i) {
			KeyRights rights = region();
			rights.begin = rights.end = rights.delta = rights.file = rights.offset = i;
			rights.descriptor = rights.protection_domain = static_cast<std::uint32_t>(i);
			if (i % 7 == 0) publisher.withdraw_key(key);
			else publisher.publish(rights);
		}
		ended.store(true);
	});
	std::uint64_t read = 0, mixed = 0;
	while (!ended.load()) {
		if (!has(key)) continue;
		++read;
		const KeyRights& r = seen.rights;
		mixed += r.begin != r.end || r.end != r.delta || r.delta != r.file || r.file != r.offset ||
			r.descriptor != r.begin || r.protection_domain != r.begin;
	}
	writer.join();
	EXPECT_EQ(mixed, 0u) << "of " << read;
}

}  // namespace
}  // namespace verbena::memory
