// SPDX-License-Identifier: Apache-2.0
#include "nic/adapter/qp_table.h"

#include <gtest/gtest.h>
#include <set>

namespace verbena::adapter {
namespace {

using transport::QueuePair;

TEST(QpTable, NumbersAreUniqueAndLieInTheTablesBlocks) {
	QpTable table;
	table.add_block(5, 0x123456789abcdef1);
	table.add_block(4000, 77);
	std::set<std::uint32_t> numbers;
	for (std::uint32_t i = 0; i < 2 * QpTable::block_size; ++i) {
		const QueuePair* qp = table.create();
		ASSERT_NE(qp, nullptr);
		EXPECT_TRUE(qp->qpn >> 12 == 5 || qp->qpn >> 12 == 4000);
		numbers.insert(qp->qpn);
	}
	EXPECT_EQ(numbers.size(), 2 * QpTable::block_size);
	EXPECT_TRUE(table.full());
	EXPECT_EQ(table.create(), nullptr);
	EXPECT_EQ(table.count(), 2 * QpTable::block_size);
}

TEST(QpTable, TheSecretPicksTheOrder) {
	QpTable one, other;
	one.add_block(1, 0x1111222233334444);
	other.add_block(1, 0x5555666677778888);
	int equal = 0;
	for (int i = 0; i < 100; ++i) equal += one.create()->qpn == other.create()->qpn;
	EXPECT_LT(equal, 10);
}

TEST(QpTable, FindsEachByItsNumberAndNothingElse) {
	QpTable table;
	table.add_block(9, 0xdeadbeefcafe);
	std::vector<QueuePair*> made;
	for (int i = 0; i < 1000; ++i) made.push_back(table.create());
	for (QueuePair* qp : made) EXPECT_EQ(table.find({qp->qpn}), qp);
	std::uint32_t found = 0;
	for (std::uint32_t qpn = 9 << 12; qpn < 10 << 12; ++qpn) found += table.find({qpn}) != nullptr;
	EXPECT_EQ(found, 1000u);
	EXPECT_EQ(table.find({made[0]->qpn ^ 1 << 12}), nullptr);
	EXPECT_EQ(table.find({0}), nullptr);
	EXPECT_EQ(table.find({0xffffff}), nullptr);
}

TEST(QpTable, ADestroyedNumberIsReusedAfterAllOthersOnly) {
	QpTable table;
	table.add_block(3, 42);
	QueuePair* first = table.create();
	const std::uint32_t number = first->qpn;
	table.destroy(*first);
	EXPECT_EQ(table.find({number}), nullptr);
	for (std::uint32_t i = 1; i < QpTable::block_size; ++i) {
		QueuePair* qp = table.create();
		EXPECT_NE(qp->qpn, number);
		table.destroy(*qp);
	}
	EXPECT_EQ(table.create()->qpn, number);
	EXPECT_EQ(table.count(), 1u);
}

TEST(QpTable, VisitsLiveQueuePairsOnly) {
	QpTable table;
	table.add_block(3, 42);
	QueuePair* a = table.create();
	QueuePair* b = table.create();
	QueuePair* c = table.create();
	table.destroy(*b);
	std::set<QueuePair*> seen;
	table.for_each([&](QueuePair& qp) { seen.insert(&qp); });
	EXPECT_EQ(seen, (std::set{a, c}));
}

}  // namespace
}  // namespace verbena::adapter
