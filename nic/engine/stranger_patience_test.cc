// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/stranger_patience.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

constexpr Nanoseconds s = 1'000'000'000, ms = 1'000'000;
constexpr uid_t alice = 1001, bob = 1002;

TEST(StrangerPatience, IsSpentAndComesBackAsATenthOfTheTime) {
	StrangerPatience patience;
	EXPECT_EQ(patience.left(alice, 0), StrangerPatience::full);
	patience.spend(alice, 500 * ms, 1 * s);
	EXPECT_EQ(patience.left(alice, 1 * s), 1500 * ms);
	EXPECT_EQ(patience.left(alice, 3 * s), 1700 * ms);
	EXPECT_EQ(patience.left(alice, 60 * s), StrangerPatience::full);
	patience.spend(alice, 5 * s, 60 * s);
	EXPECT_EQ(patience.left(alice, 61 * s - 1), 0) << "less than the least";
	EXPECT_EQ(patience.left(alice, 61 * s), StrangerPatience::least);
	EXPECT_EQ(patience.left(bob, 61 * s), StrangerPatience::full);
}

// One that answers each time, but late, takes no more than one that never does.
TEST(StrangerPatience, ATenthOfTheTimeIsTakenHoweverLateTheAnswersAre) {
	for (const Nanoseconds answer : {1 * ms, 50 * ms, 99 * ms, 500 * ms, 1900 * ms, 10 * s}) {
		StrangerPatience patience;
		Nanoseconds waited = 0;
		for (Nanoseconds now = 0; now < 100 * s;) {
			const Nanoseconds wait = std::min(patience.left(alice, now), answer);
			waited += wait;
			now += wait + ms / 10;
			patience.spend(alice, wait, now);
		}
		EXPECT_LT(waited, 13 * s) << answer;
	}
}

TEST(StrangerPatience, AMomentOfManyAnswersCostsNoneOfThem) {
	StrangerPatience patience;
	for (int i = 0; i < 50; ++i) {
		EXPECT_GE(patience.left(alice, i * ms), 1 * s);
		patience.spend(alice, 20 * ms, i * ms);
	}
}

TEST(StrangerPatience, TheUserWithTheMostIsForgottenForAnother) {
	StrangerPatience patience;
	patience.spend(alice, 1 * s, 0);
	for (uid_t user = 5000; user < 5000 + StrangerPatience::users_max; ++user) patience.spend(user, 2 * s, 0);
	EXPECT_EQ(patience.left(alice, 0), StrangerPatience::full);
	EXPECT_EQ(patience.left(5000, 0), 0);
}

}  // namespace
}  // namespace verbena::engine
