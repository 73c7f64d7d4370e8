// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/line.h"

#include <gtest/gtest.h>

namespace verbena::faults {
namespace {

Line::Packet packet(int mark, std::size_t bytes = 100) {
	Line::Packet made;
	made.bytes.assign(bytes, std::byte(mark));
	return made;
}

int take(Line& line) {
	const int mark = std::to_integer<int>(line.front().bytes[0]);
	line.pop();
	return mark;
}

TEST(Line, PacketsWithoutADelayLeaveAtOnceAndInOrder) {
	Line line;
	EXPECT_EQ(line.due(), never);
	for (int i = 0; i < 5; ++i) ASSERT_TRUE(line.add(packet(i), 1000, 0, 0));
	for (int i = 0; i < 5; ++i) {
		EXPECT_EQ(line.due(), 1000u);
		EXPECT_EQ(take(line), i);
	}
	EXPECT_TRUE(line.empty());
}

TEST(Line, APacketThatIsHeldBackIsOvertaken) {
	Line line;
	line.add(packet(1), 1000, 500, 0);
	line.add(packet(2), 1001, 0, 0);
	EXPECT_EQ(take(line), 2);
	EXPECT_EQ(line.due(), 1500u);
	EXPECT_EQ(take(line), 1);
}

TEST(Line, ASlowLineTransmitsOnePacketAfterTheOther) {
	Line line;
	// 100 bytes at 8 Mbit/s take 100 us.
	for (int i = 0; i < 3; ++i) line.add(packet(i), 0, 0, 8'000'000);
	EXPECT_EQ(line.due(), 100'000u);
	take(line);
	EXPECT_EQ(line.due(), 200'000u);
	take(line);
	EXPECT_EQ(line.due(), 300'000u);
	// The line was idle meanwhile, so it begins anew.
	take(line);
	line.add(packet(4), 1'000'000, 0, 8'000'000);
	EXPECT_EQ(line.due(), 1'100'000u);
}

TEST(Line, AFullLineTakesNoMore) {
	Line line;
	for (std::size_t i = 0; i < Line::packets_max; ++i) ASSERT_TRUE(line.add(packet(1), 0, 1, 0));
	EXPECT_FALSE(line.add(packet(1), 0, 1, 0));
	line.pop();
	EXPECT_TRUE(line.add(packet(1), 0, 1, 0));
}

}  // namespace
}  // namespace verbena::faults
