// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

namespace verbena::rcud {
namespace {

TEST(Buffer, IsWholeHugePagesOfZeros) {
	constexpr std::size_t huge = 2u << 20;
	EXPECT_EQ(Buffer(1).size(), huge);
	EXPECT_EQ(Buffer(huge).size(), huge);
	const Buffer buffer(huge + 1);
	EXPECT_EQ(buffer.size(), 2 * huge);
	const std::span bytes(buffer.data(), huge + 1);
	EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; }));
}

bool begins_a_line(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % 64 == 0; }

// The memory of an end, whose parts must follow each other.
struct PartsOfMemory : Buffers {
	using Buffers::Buffers;
	void expect_disjoint_parts() const {
		const std::byte* at = memory_.data();
		for (std::uint32_t i = 0; i < receive_count; ++i) {
			ASSERT_TRUE(begins_a_line(receive_at(i)));
			ASSERT_GE(receive_at(i) - grh_bytes(), at) << i;
			at = receive_at(i) + receive_payload;
		}
		for (std::uint32_t i = 0; i < slot_count; ++i) {
			ASSERT_TRUE(begins_a_line(slot_at(i)));
			ASSERT_GE(slot_at(i), at) << i;
			at = slot_at(i) + shape.stride;
		}
		ASSERT_GE(headers, at);
		if (shape.fragments > 1 && role == Side::sender) at = headers + std::size_t{slot_count} * shape.fragments * 16;
		const auto* const first_word = reinterpret_cast<const std::byte*>(words);
		ASSERT_GE(first_word, at);
		ASSERT_LE(first_word + word_count * sizeof *words, memory_.data() + memory_.size());
	}
};

TEST(Buffers, OfBothSidesDoNotOverlap) {
	for (const Mode mode : {Mode::rc, Mode::ud})
		for (const Side side : {Side::sender, Side::receiver}) {
			const Cell cell{.mode = mode, .op = Op::send, .msg = 100, .window = 5};
			const Shape shape{.stride = 128, .receive_depth = 12, .ring_slots = 3};
			const PartsOfMemory end(cell, shape, side);
			end.expect_disjoint_parts();
			EXPECT_EQ(end.receive_count, side == Side::receiver ? 12u : 64 + 5u) << "a sender receives only credits";
			EXPECT_EQ(end.receive_payload, side == Side::receiver ? 100u : 64u);
			EXPECT_EQ(end.slot_count, side == Side::receiver ? 3u : 5u);
		}
}

TEST(Buffers, OfSegmentedMessagesHaveAHeaderForEachFragment) {
	const Cell cell{.mode = Mode::ud_segmented, .op = Op::send, .msg = 3000, .window = 4};
	const Shape shape{.fragments = 3,
		.fragment_bytes = 1008,
		.stride = 3072,
		.receive_depth = 16,
		.credit_every = 2,
		.signal_every = 2};
	const PartsOfMemory sender(cell, shape, Side::sender), receiver(cell, shape, Side::receiver);
	sender.expect_disjoint_parts();
	receiver.expect_disjoint_parts();
	EXPECT_EQ(sender.receive_count, 64 + 4 / 2u);
	EXPECT_EQ(sender.send_depth, (4u + 2) * 3) << "the window and an unsignaled rest, in datagrams";
	EXPECT_EQ(receiver.receive_payload, 1008u + 16) << "one datagram, with its header";
	EXPECT_EQ(reinterpret_cast<const std::byte*>(receiver.words), receiver.headers) << "only a sender has headers";
}

}  // namespace
}  // namespace verbena::rcud
