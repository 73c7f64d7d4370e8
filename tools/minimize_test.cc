// SPDX-License-Identifier: Apache-2.0
#include "tools/minimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace verbena::tools {
namespace {

using ::testing::ElementsAre;
using Items = std::vector<std::string>;

bool holds(const Items& items, const std::string& item) { return std::ranges::find(items, item) != items.end(); }

TEST(Minimize, OnlyTheItemsThatMakeItFailRemain) {
	EXPECT_THAT(minimize({"a", "b", "c", "d"}, [](const Items& items) { return holds(items, "c"); }), ElementsAre("c"));
	const auto both = [](const Items& items) { return holds(items, "a") && holds(items, "d"); };
	EXPECT_THAT(minimize({"a", "b", "c", "d"}, both), ElementsAre("a", "d"));
}

TEST(Minimize, WhereOneOfTwoSufficesOneRemains) {
	const auto either = [](const Items& items) { return holds(items, "a") || holds(items, "c"); };
	EXPECT_THAT(minimize({"a", "b", "c"}, either), ElementsAre("c"));
}

TEST(Minimize, ALastItemIsKept) {
	EXPECT_THAT(minimize({"a", "b"}, [](const Items&) { return true; }), ElementsAre("b"));
}

}  // namespace
}  // namespace verbena::tools
