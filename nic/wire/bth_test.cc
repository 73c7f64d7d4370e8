// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/bth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

// One SEND ONLY to QP 0x000011, as the kernel's Soft-RoCE sends it.
constexpr Bth send_only{
	.opcode = Opcode::rc_send_only, .destination = {0x11}, .ack_requested = true, .psn = {0xb945a2}};
const auto send_only_bytes = hex("0400ffff 00000011 80b945a2");

TEST(Bth, WritesTheBytesThatAPeerSends) {
	std::array<std::byte, Bth::size> written;
	send_only.write(written);
	EXPECT_TRUE(std::ranges::equal(written, send_only_bytes));
}

TEST(Bth, ReadsBackWhatItWrote) { EXPECT_EQ(BthView::over(send_only_bytes)->read(), send_only); }

TEST(Bth, EveryFieldHasItsPlace) {
	std::array<std::byte, Bth::size> written;
	const Bth all{.opcode = Opcode::uc_write_last_imm,
		.solicited_event = true,
		.pad_count = 3,
		.p_key = 0x1234,
		.congestion_notified = true,
		.destination = {0xabcdef},
		.psn = {0x654321}};
	all.write(written);
	EXPECT_TRUE(std::ranges::equal(written, hex("29b01234 40abcdef 00654321")));
	EXPECT_EQ(BthView::over(written)->read(), all);
}

TEST(Bth, IgnoresReservedBits) {
	auto packet = send_only_bytes;
	packet[4] |= std::byte{0x3f};
	packet[8] |= std::byte{0x7f};
	EXPECT_EQ(BthView::over(packet)->read(), send_only);
}

TEST(Bth, ReadsTheTransportVersion) {
	auto packet = send_only_bytes;
	EXPECT_EQ(BthView::over(packet)->version(), 0);
	packet[1] |= std::byte{0x05};
	EXPECT_EQ(BthView::over(packet)->version(), 5);
}

TEST(Bth, DoesNotExistOverElevenBytes) { EXPECT_FALSE(BthView::over(std::span(send_only_bytes).first(11))); }

}  // namespace
}  // namespace verbena::wire
