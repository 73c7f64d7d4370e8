// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/reassembly.h"

#include <gtest/gtest.h>

namespace verbena::rcud {
namespace {

// A fragment of a 20-byte message, which has two fragments of 12 and 8 bytes.
std::vector<std::byte> fragment(std::uint64_t sequence, std::uint16_t index) {
	std::byte message[20]{};
	write_stamps(message, sizeof message, make_stamp(1, sequence));
	const FragmentHeader header{.stamp = make_stamp(1, sequence), .index = index, .count = 2, .offset = index * 12u};
	std::vector<std::byte> datagram(sizeof header + (index == 0 ? 12 : 8));
	std::memcpy(datagram.data(), &header, sizeof header);
	std::memcpy(datagram.data() + sizeof header, message + header.offset, datagram.size() - sizeof header);
	return datagram;
}

struct Two : testing::Test {
	Reassembly reassembly{2, {.message_bytes = 20, .fragments = 2, .fragment_bytes = 12}};
	std::span<const std::byte> message;
	Reassembly::Result give(std::uint64_t sequence, std::uint16_t index) {
		return reassembly.accept(fragment(sequence, index), message);
	}
};
using enum Reassembly::Result;

TEST_F(Two, AMessageIsWholeWithItsLastFragmentInAnyOrder) {
	EXPECT_EQ(give(0, 1), more);
	EXPECT_EQ(give(1, 0), more);
	EXPECT_EQ(give(0, 0), whole);
	EXPECT_EQ(sequence_of(load_stamp(message.data())), 0u);
	EXPECT_TRUE(stamps_agree(message.data(), message.size()));
	EXPECT_EQ(give(1, 1), whole);
}

TEST_F(Two, TheSameFragmentTwiceIsNotAWholeMessage) {
	EXPECT_EQ(give(0, 0), more);
	EXPECT_EQ(give(0, 0), more);
}

TEST_F(Two, AnIncompleteMessageIsEvictedByALaterOne) {
	EXPECT_EQ(give(0, 0), more);
	EXPECT_EQ(give(4, 0), more);
	EXPECT_EQ(give(4, 1), whole);
	EXPECT_EQ(give(0, 1), more);
}

TEST_F(Two, AFragmentThatContradictsTheShapeIsRefused) {
	const auto changed = [&](auto change) {
		auto datagram = fragment(0, 0);
		FragmentHeader header;
		std::memcpy(&header, datagram.data(), sizeof header);
		change(header);
		std::memcpy(datagram.data(), &header, sizeof header);
		return reassembly.accept(datagram, message);
	};
	EXPECT_EQ(changed([](auto& header) { header.count = 3; }), refused);
	EXPECT_EQ(changed([](auto& header) { header.index = 2; }), refused);
	EXPECT_EQ(changed([](auto& header) { header.offset = 9; }), refused);
	EXPECT_EQ(changed([](auto& header) { header.offset = UINT32_MAX; }), refused);
	EXPECT_EQ(changed([](auto& header) { header.index = 1; }), refused);
	const auto datagram = fragment(0, 0);
	EXPECT_EQ(reassembly.accept(std::span(datagram).first(15), message), refused);
	EXPECT_EQ(reassembly.accept(std::span(datagram).first(16), message), refused);
	EXPECT_EQ(reassembly.accept(std::span(datagram).first(27), message), refused);
}

}  // namespace
}  // namespace verbena::rcud
