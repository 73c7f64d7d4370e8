// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

namespace verbena::engine {
namespace {

int own_priority() {
	sched_param own{};
	sched_getparam(0, &own);
	return own.sched_priority;
}

// Runs `body` on a thread under SCHED_FIFO. It must not wait for another thread.
template <class Body> bool in_real_time(int priority, Body body) {
	bool permitted = false;
	std::thread([&] {
		const sched_param wanted{.sched_priority = priority};
		permitted = sched_setscheduler(0, SCHED_FIFO, &wanted) == 0;
		if (permitted) body();
	}).join();
	return permitted;
}

TEST(Priority, AThreadRunsBeforeARealTimeThreadByOneStep) {
	bool tried = false;
	const bool permitted = in_real_time(5, [&] {
		const pid_t other = gettid();
		tried = in_real_time(3, [other] {
			run_before(other);
			EXPECT_EQ(own_priority(), 6);
			run_before(other);
			EXPECT_EQ(own_priority(), 6);
		});
	});
	if (!permitted || !tried) GTEST_SKIP() << "real-time scheduling is not permitted here";
}

// sched_getscheduler(0) is about the caller: it took one step more in each round, up to 99.
TEST(Priority, AProgramWhoseThreadIsNotKnownRaisesNoPriority) {
	const bool permitted = in_real_time(5, [] {
		for (int round = 0; round < 3; ++round) run_before(0);
		EXPECT_EQ(own_priority(), 5);
	});
	if (!permitted) GTEST_SKIP() << "real-time scheduling is not permitted here";
}

TEST(Priority, AnOrdinaryThreadChangesNothing) {
	run_before(gettid());
	EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
	EXPECT_GT(processor_time(gettid()), 0u);
}

}  // namespace
}  // namespace verbena::engine
