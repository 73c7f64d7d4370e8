// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/program_polls.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

TEST(ProgramPolls, AProgramThatDoesNothingDoesNotPoll) {
	ProgramPolls polls;
	polls.begin_round(0);
	polls.end_round(3);  // the passes of the progress thread itself
	EXPECT_FALSE(polls.begin_round(3));
	EXPECT_FALSE(polls.polls_now());
}

TEST(ProgramPolls, APassBetweenTwoRoundsIsThePrograms) {
	ProgramPolls polls;
	polls.begin_round(0);
	polls.end_round(3);
	EXPECT_TRUE(polls.begin_round(4));
	EXPECT_FALSE(polls.polls_now());
}

// A store lost two fifths of its GETs of 64 KiB at window 16: the progress thread drove as long as
// there was work, and the program's thread missed every pass.
TEST(ProgramPolls, APollThatMissesThePassOfTheProgressThreadIsAPoll) {
	ProgramPolls polls;
	polls.begin_round(0);
	polls.add_miss();
	EXPECT_TRUE(polls.polls_now());
	polls.end_round(1);
	EXPECT_TRUE(polls.begin_round(1));
	EXPECT_FALSE(polls.polls_now());
	polls.end_round(2);
	EXPECT_FALSE(polls.begin_round(2));
}

TEST(ProgramPolls, AMissBetweenTwoRoundsIsAPoll) {
	ProgramPolls polls;
	polls.begin_round(0);
	polls.end_round(1);
	polls.add_miss();
	EXPECT_TRUE(polls.begin_round(1));
	EXPECT_FALSE(polls.polls_now());
}

}  // namespace
}  // namespace verbena::engine
