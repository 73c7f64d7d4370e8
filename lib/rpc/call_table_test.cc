// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/call_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace verbena::rpc {
namespace {

// Counts how often a table asks for a number: each call that a search passes is asked once.
std::size_t numbers_asked = 0;

struct NumberedCall {
	explicit NumberedCall(std::uint32_t number) : number(number) {}
	std::uint32_t sequence() const {
		++numbers_asked;
		return number;
	}
	std::uint32_t number;
	NumberedCall* next_ = nullptr;
	bool listed_ = false;
};

// Returns the most calls that the search for one of `wanted` passes.
template <class Wanted> std::size_t longest_search(const CallTable<NumberedCall>& table, const Wanted& wanted) {
	std::size_t longest = 0;
	for (const NumberedCall& each : wanted) {
		numbers_asked = 0;
		EXPECT_EQ(table.find(each.number), &each);
		longest = std::max(longest, numbers_asked);
	}
	return longest;
}

TEST(CallTable, AClientThatChoosesItsNumbersCannotMakeASearchLong) {
	for (const int shift : {0, 1, 8, 16}) {
		CallTable<NumberedCall> table;
		std::deque<NumberedCall> calls;
		for (std::uint32_t i = 0; i < 60'000; ++i) table.add(calls.emplace_back(i << shift));
		EXPECT_EQ(table.size(), calls.size());
		// With random buckets the chance that one of them has 20 calls is below 10^-12.
		EXPECT_LT(longest_search(table, calls), 20u) << "numbers that are multiples of 2^" << shift;
	}
}

TEST(CallTable, CallsAreFoundUntilTheyAreRemoved) {
	CallTable<NumberedCall> table;
	std::deque<NumberedCall> calls;
	for (std::uint32_t i = 0; i < 1000; ++i) table.add(calls.emplace_back(i * 7));
	for (std::uint32_t i = 0; i < 1000; i += 2) table.remove(calls[i]);
	table.remove(calls[0]);  // has no effect
	EXPECT_EQ(table.size(), 500u);
	for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(table.find(i * 7), i % 2 == 0 ? nullptr : &calls[i]) << i;
	std::size_t seen = 0;
	table.for_each([&](NumberedCall& call) {
		++seen;
		table.remove(call);
	});
	EXPECT_EQ(seen, 500u);
	EXPECT_EQ(table.remove_any(), nullptr);
}

}  // namespace
}  // namespace verbena::rpc
