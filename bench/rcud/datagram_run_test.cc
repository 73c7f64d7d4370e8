// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/datagram_run.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena::rcud {
namespace {

void give(OpenRun& open, std::uint16_t run, std::uint64_t sequence, std::uint64_t now) {
	std::byte message[64]{};
	write_stamps(message, sizeof message, make_stamp(run, sequence));
	open.accept(message, now);
}

TEST(OpenRun, CountsTheRunThatComesIn) {
	OpenRun open(64);
	give(open, 5, 0, 1000);
	give(open, 5, 1, 2000);
	give(open, 5, 3, 4000);
	const RunReport report = open.report(make_stamp(5, 4));
	EXPECT_EQ(report.delivered, 3u);
	EXPECT_EQ(report.message_max, 64u);
	EXPECT_EQ(report.counted, 2u);
	EXPECT_EQ(report.counted_ns, 3000u);
	EXPECT_EQ(open.question(), make_stamp(5, 4));
}

TEST(OpenRun, ANewNumberBeginsANewAccount) {
	OpenRun open(64);
	give(open, 5, 0, 1000);
	give(open, 6, 0, 2000);
	EXPECT_EQ(open.report(make_stamp(6, 1)).delivered, 1u);
	EXPECT_EQ(open.report(make_stamp(5, 1)).delivered, 0u);
}

TEST(OpenRun, AQuestionAboutRunZeroCountsPlainMessages) {
	OpenRun open(64);
	const std::array<std::byte, 8> plain{};
	open.accept(plain, 1);
	give(open, 7, 0, 2);
	EXPECT_EQ(open.report(make_stamp(plain_messages, 99)).delivered, 1u);
	EXPECT_EQ(open.report(make_stamp(7, 1)).delivered, 1u);
}

TEST(OpenRun, PlainMessagesOnlyCount) {
	OpenRun open(64);
	const char text[64] = "Hello";
	open.accept(std::as_bytes(std::span(text)), 1);
	open.accept(std::as_bytes(std::span(text).first(7)), 1);
	EXPECT_EQ(open.plain, 2u);
	EXPECT_EQ(open.report(make_stamp(5, 2)).delivered, 0u);
}

TEST(OpenRun, WithAPatternEveryByteIsChecked) {
	const Pattern pattern(seed_for(0x1007, 0x11111111));
	OpenRun open(64, pattern);
	std::array<std::byte, 64> message{};
	for (std::uint64_t sequence = 0; sequence < 4; ++sequence) {
		pattern.write(message.data(), message.size(), make_stamp(7, sequence));
		if (sequence == 2) message[30] ^= std::byte{1};
		if (sequence == 3) message[63] ^= std::byte{1};
		open.accept(message, 1000);
	}
	// One without the pattern.
	write_stamps(message.data(), message.size(), make_stamp(7, 4));
	open.accept(message, 1000);
	const RunReport report = open.report(make_stamp(7, 5));
	EXPECT_EQ(report.delivered, 2u);
	EXPECT_EQ(report.corrupt, 3u);
	EXPECT_EQ(open.plain, 0u);
}

TEST(OpenRun, WithoutAPatternTheMessagesOfOneThatHasItAreNoRun) {
	const Pattern pattern(seed_for(1, 2));
	OpenRun open(64);
	std::array<std::byte, 64> message{};
	pattern.write(message.data(), message.size(), make_stamp(7, 0));
	EXPECT_FALSE(open.accept(message, 1000));
	EXPECT_EQ(open.plain, 1u);
}

}  // namespace
}  // namespace verbena::rcud
