// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/distance.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

Json at(double trip) { return {{"core_to_core_ns", trip}, {"failure", ""}}; }

TEST(Distance, TheCommonOneIsThatOfMostRepetitions) {
	EXPECT_EQ(common_distance({}), 0);
	EXPECT_EQ(common_distance({400}), 400);
	EXPECT_EQ(common_distance({97, 390, 95, 400, 88, 53'000}), 88);
	EXPECT_EQ(common_distance({400, 390, 95}), 390);
}

TEST(Distance, OfTwoThatAreEquallyCommonItIsTheSmaller) { EXPECT_EQ(common_distance({400, 390, 95, 97}), 95); }

TEST(Distance, ARepetitionIsAtADistanceIfAllItsRoundTripsAre) {
	EXPECT_TRUE(is_at(at(97), 88));
	EXPECT_FALSE(is_at(at(390), 88));
	EXPECT_FALSE(is_at(at(50), 88));
	EXPECT_TRUE(is_at({{"rtt_before_ns", 90}, {"rtt_after_ns", 99}}, 95));
	EXPECT_FALSE(is_at({{"rtt_before_ns", 90}, {"rtt_after_ns", 399}}, 95));
	EXPECT_TRUE(is_at({{"core_to_core_ns", nullptr}}, 95)) << "it was not measured";
	EXPECT_TRUE(is_at(at(390), 0));
}

TEST(Distance, AFailureIsNeverSetApart) {
	Json failed = at(390);
	failed["failure"] = "the other process ended";
	EXPECT_TRUE(is_at(failed, 95));
}

TEST(Distance, RepetitionsAtAnotherDistanceAreApartInTheirOrder) {
	const auto [together, apart] = part({at(90), at(390), at(95), at(400), at(99)}, 95, 3);
	EXPECT_EQ(together, Json({at(90), at(95), at(99)}));
	EXPECT_EQ(apart, Json({at(390), at(400)}));
}

TEST(Distance, OneRepetitionAloneIsNoRow) {
	const Json all{at(390), at(95), at(400)};
	EXPECT_EQ(part(all, 95, 3).together, all);
	EXPECT_TRUE(part(all, 95, 3).apart.empty());
	EXPECT_EQ(part({at(390), at(400)}, 95, 2).together.size(), 2u);
	EXPECT_EQ(part(all, 95, 2).together, Json({at(390), at(95)}));
	EXPECT_EQ(part(all, 95, 2).apart, Json({at(400)}));
}

}  // namespace
}  // namespace verbena::bench
