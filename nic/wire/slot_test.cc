// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/slot.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Slot, KeepsTheBthFieldsApart) {
	Slot slot{};
	slot.set_bth(Opcode::rc_send_last_invalidate, {0xabcdef}, {0x1fedcba}, slot_solicited | 3 << slot_mtu_shift);
	EXPECT_EQ(slot.opcode(), Opcode::rc_send_last_invalidate);
	EXPECT_EQ(slot.destination(), Qpn{0xabcdef});
	EXPECT_EQ(slot.psn(), Psn24{0xfedcba});
	EXPECT_TRUE(slot.solicited());
	EXPECT_FALSE(slot.ack_requested());
	EXPECT_EQ(slot.path_mtu(), 1024u);
}

TEST(Slot, HoldsAnAethInItsWord) {
	Slot slot{};
	slot.set_aeth(syndrome::nak_remote_access, 0x5123456);
	EXPECT_EQ(slot.syndrome(), syndrome::nak_remote_access);
	EXPECT_EQ(slot.msn(), 0x123456u);
}

TEST(Slot, EveryExtendedHeaderFitsItsTail) {
	for (int value = 0; value < 256; ++value) EXPECT_LE(extension_bytes(facts(Opcode(value))), Slot::inline_bytes_max);
}

TEST(Syndrome, TheTopThreeBitsAreTheKind) {
	EXPECT_TRUE(syndrome::is_ack(syndrome::ack));
	EXPECT_TRUE(syndrome::is_rnr(syndrome::rnr_nak | 12));
	EXPECT_FALSE(syndrome::is_ack(syndrome::nak_sequence_error));
	EXPECT_FALSE(syndrome::is_rnr(syndrome::nak_sequence_error));
}

}  // namespace
}  // namespace verbena::wire
