// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/gate.h"

#include <gtest/gtest.h>

namespace verbena::adversary {
namespace {

TEST(Gate, EachCompletionIsShownAfterABoundedNumberOfPolls) {
	std::uint32_t hidden = 0;
	for (std::uint32_t number = 1; number < 200; ++number) {
		Gate gate(*parse("3:tso"), number);
		std::uint32_t polls = 0;
		while (gate.admit(1, 16, 0) == 0) ASSERT_LE(++polls, Gate::hidden_polls_max);
		hidden += polls != 0;
	}
	EXPECT_GT(hidden, 20u);
}

TEST(Gate, TimeShowsAHiddenCompletion) {
	for (std::uint32_t number = 1; number < 200; ++number) {
		Gate gate(*parse("3:tso"), number);
		gate.admit(1, 16, 0);
		EXPECT_GT(gate.admit(1, 16, Gate::hidden_time_max), 0);
	}
}

TEST(Gate, ACompletionThatIsThereAtArmingIsNotHidden) {
	for (std::uint32_t number = 1; number < 200; ++number) {
		Gate gate(*parse("3:tso"), number);
		gate.admit(2, 16, 0);
		gate.took(0);
		gate.arm(2);
		EXPECT_EQ(gate.admit(2, 16, 0), 2);
		gate.took(1);
		EXPECT_EQ(gate.admit(3, 16, 0), 1);
	}
}

// Regression: a program that drained a queue pair as the specification asks lost receives.
TEST(Gate, ACompletionThatIsThereAtTheLastReceiveIsNotHidden) {
	for (std::uint32_t number = 1; number < 200; ++number) {
		Gate gate(*parse("3:tso"), number);
		while (gate.admit(3, 1, 0) == 0) {}
		gate.show(2);  // the poll has taken one of the three, and has not said so yet
		gate.took(1);
		EXPECT_EQ(gate.admit(2, 16, 0), 2);
		gate.took(2);
		EXPECT_EQ(gate.admit(0, 16, 0), 16);
	}
}

TEST(Gate, SomeEventsAreLateAndNoneByMoreThanTheLongestDelay) {
	Gate gate(*parse("3:tso"), 1);
	int late = 0;
	for (int i = 0; i < 400; ++i) {
		const Nanoseconds delay = gate.event_delay();
		EXPECT_LE(delay, delay_max);
		late += delay != 0;
	}
	EXPECT_GT(late, 50);
	EXPECT_LT(late, 200);
	EXPECT_EQ(Gate(*parse("3:tso:only=completions"), 1).event_delay(), 0u);
}

TEST(Gate, WithoutTheKindNothingIsHidden) {
	for (std::uint32_t number = 1; number < 200; ++number) {
		Gate gate(*parse("3:tso:only=placement"), number);
		EXPECT_EQ(gate.admit(5, 16, 0), 16);
		EXPECT_FALSE(gate.is_strict() || gate.is_spurious() || gate.makes_junk());
	}
}

}  // namespace
}  // namespace verbena::adversary
