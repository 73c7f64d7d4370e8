// SPDX-License-Identifier: Apache-2.0
#include "tools/suggestion.h"

#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

const std::vector<std::string> known{"run", "devices", "doctor", "bench", "report"};

TEST(Suggestion, TwoLettersThatChangedPlacesAreOneMistake) {
	EXPECT_EQ(distance("devcies", "devices"), 1u);
	EXPECT_EQ(suggestion("devcies", known), "devices");
}

TEST(Suggestion, AMissingAnAdditionalAndAWrongLetterAreFound) {
	EXPECT_EQ(suggestion("docter", known), "doctor");
	EXPECT_EQ(suggestion("bech", known), "bench");
	EXPECT_EQ(suggestion("reports", known), "report");
}

TEST(Suggestion, TheBeginningOfAWordIsCompleted) { EXPECT_EQ(suggestion("dev", known), "devices"); }

TEST(Suggestion, AWordThatIsNotNearAnyGetsNone) {
	EXPECT_EQ(suggestion("install", known), "");
	EXPECT_EQ(suggestion("", known), "");
	EXPECT_EQ(suggestion("run", {}), "");
}

}  // namespace
}  // namespace verbena::tools
