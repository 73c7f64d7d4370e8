// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/mad.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Mad, HeaderLiesWhereTheSpecificationSays) {
	Mad bytes{};
	write_mad_header(bytes,
		{.status = 0x1112,
			.transaction_id = 0x2122'2324'2526'2728,
			.attribute_id = 0x0010,
			.attribute_modifier = 0x3132'3334});
	const std::uint8_t expected[mad_header_size] = {1, 7, 2, 3, 0x11, 0x12, 0, 0, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
		0x27, 0x28, 0, 0x10, 0, 0, 0x31, 0x32, 0x33, 0x34};
	for (std::size_t i = 0; i < mad_header_size; ++i) EXPECT_EQ(load_be8(&bytes[i]), expected[i]) << "byte " << i;
}

TEST(Mad, AHeaderIsReadAsItWasWritten) {
	const MadHeader header{.status = 7, .transaction_id = 99, .attribute_id = 0x13, .attribute_modifier = 1};
	Mad bytes{};
	write_mad_header(bytes, header);
	EXPECT_EQ(read_mad_header(std::span(bytes).first<mad_header_size>()), header);
}

}  // namespace
}  // namespace verbena::wire
