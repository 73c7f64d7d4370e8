// SPDX-License-Identifier: Apache-2.0
#include "lib/async/semaphore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/async/job.h"

namespace verbena::async {
namespace {

// Coroutines that take a permit and hold it until the test takes it away.
class Holders : public ::testing::Test {
protected:
	// Holder `mark` asks for a permit in the loop's next turn.
	Job start(int mark) { return Job(loop_, hold(mark)); }
	Task<void> hold(int mark) {
		const auto permit = co_await semaphore_->acquire();
		held_.push_back(mark);
		most_ = std::max(most_, held_.size());
		while (std::ranges::find(held_, mark) != held_.end()) co_await NextTurn(loop_);
		ended_.push_back(mark);
	}
	void release(int mark) { std::erase(held_, mark); }
	void run_turns(int count = 3) {
		loop_.run_until([&] { return count-- == 0; });
	}

	Loop loop_{{.spin = never}};  // it never sleeps: nothing but the test would wake it
	std::optional<Semaphore> semaphore_{std::in_place, loop_, 1};
	std::vector<int> held_, ended_;
	std::size_t most_ = 0;
};

TEST_F(Holders, AreAtMostAsManyAsThePermits) {
	semaphore_.emplace(loop_, 2);
	std::vector<Job> jobs;
	for (int mark = 0; mark < 6; ++mark) jobs.push_back(start(mark));
	for (int mark = 0; mark < 6; ++mark) {
		run_turns();
		release(mark);
	}
	run_turns();
	EXPECT_EQ(most_, 2u);
	EXPECT_EQ(ended_, (std::vector{0, 1, 2, 3, 4, 5}));
}

TEST_F(Holders, GetTheirPermitsInTheOrderInWhichTheyAsked) {
	std::vector<Job> jobs;
	std::vector<int> order;
	for (int mark = 0; mark < 4; ++mark) jobs.push_back(start(mark));
	for (int each = 0; each < 4; ++each) {
		run_turns();
		ASSERT_EQ(held_.size(), 1u);
		order.push_back(held_[0]);
		release(held_[0]);
	}
	EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

// The waiter is assigned the permit and not yet resumed when another coroutine asks.
TEST_F(Holders, ThatAskLateDoNotOvertakeOneThatWaits) {
	auto permit = std::make_optional<Semaphore::Permit>([&] {
		auto acquire = semaphore_->acquire();
		EXPECT_TRUE(acquire.await_ready());
		return acquire.await_resume();
	}());
	const Job waiter = start(1);
	run_turns();
	permit.reset();
	auto newcomer = semaphore_->acquire();
	EXPECT_FALSE(newcomer.await_ready());
	run_turns();
	EXPECT_EQ(held_, std::vector{1});
}

TEST_F(Holders, ThatEndInMidQueueAreSkipped) {
	const Job first = start(1);
	std::optional<Job> second = start(2);
	const Job third = start(3);
	run_turns();
	second.reset();
	release(1);
	run_turns();
	EXPECT_EQ(held_, std::vector{3});
}

TEST_F(Holders, ThatEndBeforeTheyAreResumedPassTheirPermitOn) {
	std::optional<Job> first = start(1), second = start(2);
	const Job third = start(3);
	run_turns();
	first.reset();   // assigns its permit to the second
	second.reset();  // which never runs
	run_turns();
	EXPECT_EQ(held_, (std::vector{1, 3}));
}

TEST_F(Holders, ThatAllEndLeaveEveryPermitFree) {
	semaphore_.emplace(loop_, 2);
	{
		std::vector<Job> jobs;
		for (int mark = 0; mark < 5; ++mark) jobs.push_back(start(mark));
		run_turns();
	}
	auto one = semaphore_->acquire(), two = semaphore_->acquire(), three = semaphore_->acquire();
	EXPECT_TRUE(one.await_ready());
	EXPECT_TRUE(two.await_ready());
	EXPECT_FALSE(three.await_ready());
}

}  // namespace
}  // namespace verbena::async
