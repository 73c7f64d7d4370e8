// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/launch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

TEST(TextOfChild, IsTheWholeTextOfAnotherProcess) {
	EXPECT_NE(text_of_child([] { return std::to_string(getpid()); }), std::to_string(getpid()));
	const std::string much(1 << 20, 'x');  // more than a pipe holds
	EXPECT_EQ(text_of_child([&] { return much; }), much);
	EXPECT_EQ(text_of_child([] { return std::string(); }), "");
}

}  // namespace
}  // namespace verbena::bench
