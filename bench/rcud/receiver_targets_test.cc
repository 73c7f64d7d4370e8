// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/scripted_receiver.h"

// The receiver of messages of several datagrams, and the targets of WRITE and READ.
namespace verbena::rcud {
namespace {

TEST(SegmentedReceiver, RefusesFragmentsThatLeaveAGapOrContradictTheirMessage) {
	const Cell cell = with({.mode = Mode::ud_segmented, .window = 4}, 96);
	const auto fragments = [](const Scripted& scripted, std::uint64_t sequence) {
		const auto whole = scripted.message(sequence);
		std::vector<std::vector<std::byte>> all;
		for (std::uint16_t i = 0; i < 2; ++i) {
			const FragmentHeader header{.stamp = make_stamp(3, sequence), .index = i, .count = 2, .offset = i * 48u};
			std::vector<std::byte> datagram(sizeof header + 48);
			std::memcpy(datagram.data(), &header, sizeof header);
			std::memcpy(datagram.data() + sizeof header, whole.data() + header.offset, 48);
			all.push_back(datagram);
		}
		return all;
	};
	for (const std::uint64_t with_seed : {std::uint64_t{0}, seed}) {
		Scripted scripted(cell, 3, with_seed);
		auto first = fragments(scripted, 0), second = fragments(scripted, 1), third = fragments(scripted, 2);
		// Message 1 has its first half twice, once as if it were the second half.
		second[1] = second[0];
		second[1][8] = std::byte{1};
		third[0][sizeof(FragmentHeader) + 2] ^= std::byte{1};  // in the stamp
		for (const auto& message : {first, second, third})
			for (const auto& datagram : message)
				scripted.end.steps.push_back([&scripted, datagram] { scripted.end.arrive(datagram); });
		expect_counts(scripted.go(), {.delivered = 1, .corrupt = 2});
	}
}

TEST(WriteTarget, CountsWholeMessagesAndWaitsForBytesThatComeLate) {
	for (const std::uint64_t with_seed : {std::uint64_t{0}, seed})
		for (const std::uint32_t msg : {8u, 12u, 16u, 64u}) {
			Scripted scripted(with(rc, msg, WindowMode::local, Op::write), 10, with_seed);
			for (std::uint64_t i = 0; i < 10; ++i) scripted.write(i);
			expect_counts(scripted.go(), {.delivered = 10});
		}
	// The end of the message is there first.
	Scripted late(with(rc, 64, WindowMode::local, Op::write), 1, seed);
	late.write(0, [&](std::byte* slot) {
		slot[20] ^= std::byte{1};
		late.end.at_reading = [slot, done = false]() mutable {
			if (!std::exchange(done, true)) slot[20] ^= std::byte{1};
		};
	});
	expect_counts(late.go(), {.delivered = 1});
}

TEST(WriteTarget, ADamagedByteAnywhereIsNoticed) {
	for (std::uint32_t at = 0; at < 64; ++at) {
		Scripted scripted(with(rc, 64, WindowMode::local, Op::write), 3, seed);
		scripted.end.poll_ns = 100'000;
		scripted.end.reading_ns = 1'000'000;
		scripted.write(0);
		scripted.write(1, [&](std::byte* slot) { slot[at] ^= std::byte{4}; });
		scripted.write(2);
		// The far end finishes only when it has its credits.
		const Delivery delivery = scripted.receiver.run(
			scripted.run, [asks = 0](bool) mutable { return ++asks > asks_max ? Watch::abandon : Watch::go_on; });
		SCOPED_TRACE(at);
		expect_counts(delivery, {.delivered = 2, .corrupt = 1});
	}
}

TEST(WriteTarget, ALostWriteIsNotCounted) {
	Scripted scripted(with(rc, 64, WindowMode::local, Op::write), 3);
	scripted.write(0), scripted.write(2);
	expect_counts(scripted.go(), {.delivered = 1});
}

TEST(WriteTarget, AReceiveThatCompletesIsALie) {
	Scripted scripted(with(rc, 64, WindowMode::local, Op::write), 3);
	scripted.end.steps.push_back([&] {
		ibv_wc wc{};
		wc.opcode = IBV_WC_RECV;
		scripted.end.completions.push_back(wc);
	});
	EXPECT_EQ(scripted.failure(), "credit: a completion of the device has opcode 128 instead of 1");
}

TEST(ReadTarget, FillsItsRingForEachRun) {
	Scripted scripted(with(rc, 64, WindowMode::local, Op::read), 3, seed);
	for (std::uint32_t i = 0; i < scripted.end.slot_count; ++i)
		EXPECT_TRUE(Pattern(seed).agrees(scripted.end.slot_at(i), 64, make_stamp(3, i)));
	expect_counts(scripted.go(), {});
}

}  // namespace
}  // namespace verbena::rcud
