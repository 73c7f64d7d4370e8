// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/private_data.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::rcud {
namespace {

const Offer offer{.cell = {.op = Op::write, .window_mode = WindowMode::credit, .msg = 0x01020304, .window = 64},
	.run = {.number = 0x0506, .total = 0x0708, .seed = 0x2122232425262728},
	.credit_word = 0x1112131415161718,
	.rkey = 0x191a1b1c};

// Private data as the peer receives it: a fixed size, filled up with zeros.
std::vector<std::byte> padded(std::span<const std::byte> data, std::size_t bytes = 56) {
	std::vector<std::byte> whole(data.begin(), data.end());
	whole.resize(bytes);
	return whole;
}

TEST(PrivateData, AnOfferIsTheseBytes) {
	const std::uint8_t literal[]{'V', 'B', 'R', 'O', 2, 1, 1, 0, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 64, 0x05, 0x06, 0, 0,
		0, 0, 0, 0, 0x07, 0x08, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
		0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c};
	const auto data = encode(offer);
	ASSERT_EQ(data.size(), sizeof literal);
	for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(std::to_integer<int>(data[i]), literal[i]) << i;
	static_assert(offer_bytes <= 56 && answer_bytes <= 56);
}

TEST(PrivateData, ComesBackWithItsPadding) {
	EXPECT_EQ(decode_offer(padded(encode(offer))), offer);
	const Answer answer{.data = 0xffff'0000'1234'5678, .rkey = 0xdead'beef};
	EXPECT_EQ(decode_answer(padded(encode(answer), 196)), answer);
	EXPECT_EQ(decode_answer(encode(answer)), answer);
}

TEST(PrivateData, OneByteTooFewIsRefusedAtEveryLength) {
	const auto data = encode(offer);
	for (std::size_t bytes = 0; bytes < data.size(); ++bytes)
		EXPECT_FALSE(decode_offer(std::span(data).first(bytes))) << bytes;
	const auto answer = encode(Answer{});
	for (std::size_t bytes = 0; bytes < answer.size(); ++bytes)
		EXPECT_FALSE(decode_answer(std::span(answer).first(bytes))) << bytes;
}

TEST(PrivateData, DataOfAnotherProgramOrVersionIsRefusedAndNamed) {
	EXPECT_NE(decode_offer(padded({})).error().find("another program"), std::string::npos);
	EXPECT_NE(decode_offer(padded(encode(Answer{}))).error().find("another program"), std::string::npos);
	auto newer = encode(offer);
	newer[4] = std::byte{3};
	EXPECT_NE(
		decode_offer(newer).error().find("speaks version 3 of the protocol, this one version 2"), std::string::npos);
}

TEST(PrivateData, AFieldOutOfRangeIsRefused) {
	for (const auto& [at, value] :
		std::initializer_list<std::pair<std::size_t, int>>{{5, 3}, {6, 2}, {7, 1}, {8, 0xff}, {12, 1}, {18, 1}}) {
		auto data = encode(offer);
		data[at] = static_cast<std::byte>(value);
		EXPECT_FALSE(decode_offer(data)) << at;
	}
	for (const Cell cell : {Cell{.msg = 0, .window = 1}, Cell{.msg = 1, .window = 0}})
		EXPECT_FALSE(decode_offer(encode(Offer{.cell = cell})));
}

}  // namespace
}  // namespace verbena::rcud
