// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/given_back.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::rules {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;

std::vector<Range> taken(GivenBack& notes) {
	std::vector<Range> ranges;
	notes.take([&](std::uint64_t begin, std::uint64_t end) { ranges.emplace_back(begin, end); });
	return ranges;
}

TEST(GivenBack, EachNoteIsTakenOnceInOrder) {
	GivenBack notes;
	EXPECT_THAT(taken(notes), testing::IsEmpty());
	notes.note(1, 2);
	notes.note(3, 4);
	EXPECT_THAT(taken(notes), testing::ElementsAre(Range{1, 2}, Range{3, 4}));
	EXPECT_THAT(taken(notes), testing::IsEmpty());
}

TEST(GivenBack, ANoteWithoutAPlaceIsDroppedAndLaterOnesAreNot) {
	const auto notes = std::make_unique<GivenBack>();
	for (std::uint64_t i = 0; i < GivenBack::notes_max + 5; ++i) notes->note(i, i + 1);
	EXPECT_EQ(taken(*notes).size(), GivenBack::notes_max);
	notes->note(7, 8);
	EXPECT_THAT(taken(*notes), testing::ElementsAre(Range{7, 8}));
}

TEST(GivenBack, NotesOfSeveralThreadsAreWhole) {
	constexpr std::uint64_t count = 20000;
	const auto notes = std::make_unique<GivenBack>();
	std::atomic<int> running = 2;
	std::vector<std::thread> threads;
	for (std::uint64_t base : {std::uint64_t{1}, std::uint64_t{1} << 32})
		threads.emplace_back([&, base] {
			for (std::uint64_t i = 0; i < count; ++i) notes->note(base + i, base + i + 5);
			--running;
		});
	std::size_t broken = 0;
	const auto check = [&](std::uint64_t begin, std::uint64_t end) { broken += end != begin + 5; };
	while (running) notes->take(check);
	notes->take(check);
	for (std::thread& thread : threads) thread.join();
	EXPECT_EQ(broken, 0u);
}

}  // namespace
}  // namespace verbena::rules
