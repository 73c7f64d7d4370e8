// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/silent_strangers.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

constexpr Nanoseconds s = 1'000'000'000;
constexpr uid_t alice = 1001, bob = 1002;

TEST(SilentStrangers, AreWaitedForBrieflyAndRarelyAfterTheFirstTime) {
	SilentStrangers silent;
	EXPECT_EQ(silent.begin(alice, true, 1 * s), SilentStrangers::patience);
	EXPECT_EQ(silent.begin(alice, true, 3 * s), 0);
	EXPECT_EQ(silent.begin(alice, true, 4 * s), SilentStrangers::brief_patience);
	EXPECT_EQ(silent.begin(alice, true, 4 * s + 1), 0);
	EXPECT_EQ(silent.begin(alice, true, 5 * s), SilentStrangers::brief_patience);
	EXPECT_EQ(silent.begin(bob, true, 5 * s), SilentStrangers::patience);
}

// However it connects, a silent stranger takes about a tenth of the time.
TEST(SilentStrangers, TakeATenthOfTheTime) {
	SilentStrangers silent;
	Nanoseconds waited = 0;
	for (Nanoseconds now = 0; now < 1000 * s;) {
		const Nanoseconds patience = silent.begin(alice, true, now);
		waited += patience;
		now += patience + 1'000'000;
	}
	EXPECT_LT(waited, 105 * s);
}

TEST(SilentStrangers, AreNotWaitedForByThoseWhoAreNotPatient) {
	SilentStrangers silent;
	EXPECT_EQ(silent.begin(alice, false, 1 * s), SilentStrangers::patience);
	EXPECT_EQ(silent.begin(alice, false, 10 * s), 0);
	EXPECT_EQ(silent.begin(alice, false, 1 * s + SilentStrangers::remembered), SilentStrangers::patience);
}

TEST(SilentStrangers, AreForgottenWithAnAnswerAndWhenTheyAreTooMany) {
	SilentStrangers silent;
	silent.begin(alice, true, 1 * s);
	silent.forget(alice);
	EXPECT_FALSE(silent.contains(alice));
	silent.begin(alice, true, 1 * s);
	for (uid_t other = 5000; other < 5000 + SilentStrangers::users_max; ++other) silent.begin(other, true, 2 * s);
	EXPECT_FALSE(silent.contains(alice));
	EXPECT_TRUE(silent.contains(5000));
}

}  // namespace
}  // namespace verbena::engine
