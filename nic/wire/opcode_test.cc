// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/opcode.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Opcode, ThirtySevenValuesAreKnown) {
	int known = 0;
	for (int value = 0; value < 256; ++value) known += facts(Opcode(value)).known;
	EXPECT_EQ(known, 23 + 12 + 2);
}

TEST(Opcode, ReservedAndForeignValuesAreUnknown) {
	for (const int value : {0x15, 0x18, 0x1c, 0x1d, 0x2c, 0x37, 0x60, 0x66, 0x81, 0xa4, 0xff})
		EXPECT_FALSE(facts(Opcode(value)).known) << value;
}

TEST(Opcode, HeaderSizesAreThoseOfTheSpecification) {
	const auto size = [](Opcode opcode) { return int{facts(opcode).header_bytes}; };
	EXPECT_EQ(size(Opcode::rc_send_only), 12);
	EXPECT_EQ(size(Opcode::rc_send_last_imm), 16);
	EXPECT_EQ(size(Opcode::rc_send_only_invalidate), 16);
	EXPECT_EQ(size(Opcode::rc_write_first), 28);
	EXPECT_EQ(size(Opcode::rc_write_middle), 12);
	EXPECT_EQ(size(Opcode::rc_write_last_imm), 16);
	EXPECT_EQ(size(Opcode::rc_write_only_imm), 32);
	EXPECT_EQ(size(Opcode::rc_read_request), 28);
	EXPECT_EQ(size(Opcode::rc_read_response_first), 16);
	EXPECT_EQ(size(Opcode::rc_read_response_middle), 12);
	EXPECT_EQ(size(Opcode::rc_acknowledge), 16);
	EXPECT_EQ(size(Opcode::rc_atomic_acknowledge), 24);
	EXPECT_EQ(size(Opcode::rc_compare_swap), 40);
	EXPECT_EQ(size(Opcode::ud_send_only), 20);
	EXPECT_EQ(size(Opcode::ud_send_only_imm), 24);
}

TEST(Opcode, FirstOpensLastClosesOnlyDoesBothMiddleNeither) {
	const auto ends = [](Opcode opcode) { return std::pair(facts(opcode).first, facts(opcode).last); };
	EXPECT_EQ(ends(Opcode::uc_send_first), std::pair(true, false));
	EXPECT_EQ(ends(Opcode::rc_write_middle), std::pair(false, false));
	EXPECT_EQ(ends(Opcode::rc_send_last_invalidate), std::pair(false, true));
	EXPECT_EQ(ends(Opcode::rc_send_only_invalidate), std::pair(true, true));
	EXPECT_EQ(ends(Opcode::ud_send_only_imm), std::pair(true, true));
	EXPECT_EQ(ends(Opcode::rc_read_response_only), std::pair(true, true));
}

TEST(Opcode, OnlyResponsesAreResponses) {
	EXPECT_TRUE(facts(Opcode::rc_read_response_middle).response);
	EXPECT_TRUE(facts(Opcode::rc_atomic_acknowledge).response);
	EXPECT_FALSE(facts(Opcode::rc_read_request).response);
	EXPECT_FALSE(facts(Opcode::rc_compare_swap).response);
}

}  // namespace
}  // namespace verbena::wire
