// SPDX-License-Identifier: Apache-2.0
// Random steps: blocks of all sizes come and go while some may not be moved, and every block keeps
// its content.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "lib/kv/state/arena_fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::size_t megabyte = 1 << 20;

std::uint64_t steps_of_all() {
	const char* const wanted = std::getenv("VERBENA_TEST_STEPS");
	return wanted == nullptr ? 1'000'000 : std::strtoull(wanted, nullptr, 10);
}

// A size from 1 byte to 1 MiB; each doubling is as likely as any other.
std::size_t any_size(Random& random) {
	const std::size_t below = std::size_t{2} << random.below(20);
	return below / 2 + random.below(below / 2);
}

// Takes and gives back blocks, whose sizes together are `limit` bytes at most. The limit is
// reached most of the time, and the arena has as little more as it can do with: a part of each run
// that is left over, and a run of each class. `phases`: for a while, all new blocks have about the
// same size.
class Steps {
public:
	Steps(std::size_t limit, std::uint64_t seed, bool phases)
		: blocks(limit + limit / 64 + 4 * megabyte), limit_(limit), random_(seed), phases_(phases) {}

	void run(std::uint64_t steps, std::size_t pinned_max) {
		for (std::uint64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
			if (i % 20'000 == 0) size_of_phase_ = any_size(random_);
			if (pinned_max > 0 && random_.below(8) == 0) pin(pinned_max);
			else step(pinned_max == 0);
			if (i % 4096 != 0) continue;
			ASSERT_STREQ(blocks.arena.broken(), nullptr) << "step " << i;
		}
		ASSERT_STREQ(blocks.arena.broken(), nullptr);
		ASSERT_TRUE(blocks.all_right());
		ASSERT_FALSE(blocks.pinned_moved);
	}

	Blocks blocks;
	std::uint64_t taken = 0, refused = 0;
	std::size_t used_most = 0;

private:
	void step(bool must_succeed) {
		const std::size_t bytes = phases_ ? size_of_phase_ - random_.below(size_of_phase_ / 4 + 1) : any_size(random_);
		while (used_ + Arena::block_size(bytes) > limit_ && !numbers_.empty()) give_back_any();
		if (random_.below(3) == 0 && !numbers_.empty()) return give_back_any();
		if (used_ + Arena::block_size(bytes) > limit_) return;
		const unsigned number = next_++;
		if (blocks.take(number, bytes)) {
			++taken;
			used_ += Arena::block_size(bytes);
			used_most = std::max(used_most, used_);
			numbers_.push_back(number);
		} else {
			++refused;
			ASSERT_FALSE(must_succeed) << bytes << " bytes; " << used_ << " of " << limit_ << " are used";
		}
	}
	void give_back_any() {
		const std::size_t index = random_.below(numbers_.size());
		const unsigned number = numbers_[index];
		numbers_[index] = numbers_.back();
		numbers_.pop_back();
		ASSERT_TRUE(blocks.is_right(number)) << number;
		used_ -= Arena::block_size(blocks.blocks.at(number).bytes);
		blocks.pinned.erase(number);
		blocks.give_back(number);
	}
	void pin(std::size_t pinned_max) {
		if (blocks.pinned.size() >= pinned_max) blocks.pinned.erase(blocks.pinned.begin());
		if (!numbers_.empty()) blocks.pinned.insert(numbers_[random_.below(numbers_.size())]);
	}

	std::size_t limit_, used_ = 0;
	Random random_;
	bool phases_;
	std::size_t size_of_phase_ = 1;
	unsigned next_ = 0;
	std::vector<unsigned> numbers_;
};

TEST(ArenaSteps, EveryBlockThatTheLimitAllowsFindsRoom) {
	for (const std::size_t limit : {4 * megabyte, 160 * megabyte}) {
		Steps steps(limit, limit + 1, false);
		steps.run(steps_of_all() / 4, 0);
		EXPECT_GT(steps.used_most, limit - limit / 16);
		EXPECT_EQ(steps.refused, 0u);
		EXPECT_GT(steps.blocks.arena.counters().moved, 0u);
	}
}

TEST(ArenaSteps, BlocksOfOneSizeReplaceThoseOfAnother) {
	Steps steps(32 * megabyte, 3, true);
	steps.run(steps_of_all() / 4, 0);
	EXPECT_EQ(steps.refused, 0u);
	EXPECT_GT(steps.blocks.arena.counters().moved, steps.taken / 100);
}

TEST(ArenaSteps, BlocksKeepTheirContentWhileSomeMayNotBeMoved) {
	Steps steps(32 * megabyte, 5, false);
	steps.run(steps_of_all() / 4, 16);
	EXPECT_LT(steps.refused, steps.taken / 20);
	EXPECT_GT(steps.blocks.arena.counters().moved, steps.taken / 100);
}

}  // namespace
}  // namespace verbena::kv
