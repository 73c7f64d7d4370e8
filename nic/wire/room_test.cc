// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/room.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

constexpr RoomMessage answer{.is_answer = true,
	.nonce = 0x0102'0304'0506'0708,
	.asked = {0x00a1'a2a3},
	.asker = {0x00b1'b2b3},
	.room = 0xc1c2'c3c4};

TEST(RoomMessage, FieldsLieWhereTheHeaderSays) {
	Mad expected{};
	const std::uint8_t header[] = {1, 0x31, 1, 0x81, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1};
	const std::uint8_t body[] = {
		0x56, 0x52, 0x42, 1, 0, 0, 0, 0, 0xa1, 0xa2, 0xa3, 0, 0xb1, 0xb2, 0xb3, 0xc1, 0xc2, 0xc3, 0xc4};
	std::ranges::copy(std::as_bytes(std::span(header)), expected.begin());
	std::ranges::copy(std::as_bytes(std::span(body)), expected.begin() + 37);
	EXPECT_EQ(write_room_message(answer), expected);
}

TEST(RoomMessage, AMessageIsReadAsItWasWritten) {
	EXPECT_EQ(read_room_message(write_room_message(answer)), answer);
	const RoomMessage question{.nonce = 7, .asked = {1}, .asker = {2}};
	EXPECT_EQ(read_room_message(write_room_message(question)), question);
}

// Linux returns a question that it does not know with this status and with the method of an answer.
TEST(RoomMessage, AnAnswerOfLinuxIsRead) {
	Mad mad = write_room_message({.nonce = 7, .asked = {1}, .asker = {2}});
	store_be8(&mad[3], 0x81);
	store_be16(&mad[4], 0x000c);
	EXPECT_EQ(read_room_message(mad),
		(RoomMessage{.is_answer = true, .status = 0x000c, .nonce = 7, .asked = {1}, .asker = {2}}));
}

TEST(RoomMessage, OtherDatagramsAreNotRead) {
	const Mad good = write_room_message(answer);
	EXPECT_FALSE(read_room_message(std::span(good).first(mad_size - 1)));
	for (const std::size_t byte : {1, 2, 3, 16, 37, 38, 39, 44, 48}) {
		Mad other = good;
		other[byte] ^= std::byte{0x40};
		EXPECT_FALSE(read_room_message(other)) << "byte " << byte;
	}
	Mad without_version = good;
	without_version[40] = {};
	EXPECT_FALSE(read_room_message(without_version));
	Mad later = good;
	later[40] = std::byte{9};
	EXPECT_EQ(read_room_message(later), answer);
}

}  // namespace
}  // namespace verbena::wire
