// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/responder_checks.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

using wire::facts;
using wire::Opcode;

// Templates: each test changes only the field that it checks.
constexpr ResponderView idle{.expected_psn = 100, .path_mtu = 1024};
constexpr ResponderView in_send{.expected_psn = 100, .in_message = InMessage::send, .path_mtu = 1024};
constexpr ResponderView in_write{.expected_psn = 100, .in_message = InMessage::write, .path_mtu = 1024};

TEST(CheckPsn, TheExpectedOneIsAcceptedAnOlderOneIsADuplicate) {
	EXPECT_EQ(check_psn(idle, 100), Verdict::accept);
	EXPECT_EQ(check_psn(idle, 99), Verdict::duplicate);
	EXPECT_EQ(check_psn(idle, 0), Verdict::duplicate);
}

TEST(CheckPsn, AGapIsReportedOnceAndThenSilent) {
	EXPECT_EQ(check_psn(idle, 101), Verdict::nak_sequence_error);
	ResponderView reported = idle;
	reported.gap_reported = true;
	EXPECT_EQ(check_psn(reported, 101), Verdict::drop);
	EXPECT_EQ(check_psn(reported, 100), Verdict::accept);
	EXPECT_EQ(check_psn(reported, 99), Verdict::duplicate);
}

// Checks every request opcode in every state of the message in progress.
TEST(CheckOpcodeSequence, FirstAndOnlyBeginAMessageMiddleAndLastGoOnWithTheirOwnKind) {
	for (int value = 0; value < 256; ++value) {
		const wire::OpcodeFacts& f = facts(Opcode(value));
		if (!f.known || f.transport != wire::Transport::rc || f.response) continue;
		const bool begins = f.first;
		const bool send = f.operation == wire::Operation::send;
		SCOPED_TRACE(value);
		EXPECT_EQ(check_opcode_sequence(idle, f), begins ? Verdict::accept : Verdict::nak_invalid_request);
		EXPECT_EQ(check_opcode_sequence(in_send, f), !begins && send ? Verdict::accept : Verdict::nak_invalid_request);
		EXPECT_EQ(
			check_opcode_sequence(in_write, f), !begins && !send ? Verdict::accept : Verdict::nak_invalid_request);
	}
}

TEST(CheckOpcodeSequence, AResponseIsNoRequest) {
	EXPECT_EQ(check_opcode_sequence(idle, facts(Opcode::rc_acknowledge)), Verdict::drop);
	EXPECT_EQ(check_opcode_sequence(in_send, facts(Opcode::rc_read_response_middle)), Verdict::drop);
}

struct LengthRow {
	Opcode opcode;
	std::uint32_t length;
	bool packet, run;  // accepted as one packet; accepted as a run of packets
};

class CheckLength : public testing::TestWithParam<LengthRow> {};
TEST_P(CheckLength, Row) {
	const LengthRow& row = GetParam();
	const RequestPacket packet{.psn = 100, .facts = facts(row.opcode), .length = row.length};
	RequestPacket run = packet;
	run.run_allowed = true;
	EXPECT_EQ(check_length(idle, packet) == Verdict::accept, row.packet);
	EXPECT_EQ(check_length(idle, run) == Verdict::accept, row.run);
}
using enum Opcode;
INSTANTIATE_TEST_SUITE_P(Responder, CheckLength,
	testing::Values(LengthRow{rc_send_first, 1024, true, true}, LengthRow{rc_send_first, 1023, false, false},
		LengthRow{rc_send_first, 0, false, false}, LengthRow{rc_send_first, 2048, false, true},
		LengthRow{rc_send_first, 2047, false, false}, LengthRow{rc_write_middle, 1024, true, true},
		LengthRow{rc_write_middle, 4, false, false}, LengthRow{rc_send_last, 1, true, true},
		LengthRow{rc_send_last, 1024, true, true}, LengthRow{rc_send_last, 0, false, false},
		LengthRow{rc_send_last_imm, 1025, false, true}, LengthRow{rc_send_only, 0, true, true},
		LengthRow{rc_send_only_invalidate, 1024, true, true}, LengthRow{rc_write_only, 1025, false, true},
		LengthRow{rc_write_only_imm, 0, true, true}, LengthRow{rc_read_request, 0, true, true},
		LengthRow{rc_read_request, 4, false, false}, LengthRow{rc_fetch_add, 0, true, true},
		LengthRow{rc_compare_swap, 8, false, false}));

TEST(CheckLength, ARethNamesAtMostTwoToThePowerOf31Bytes) {
	const RequestPacket longest{.psn = 100, .facts = facts(Opcode::rc_read_request), .dma_length = 1u << 31};
	RequestPacket longer = longest;
	++longer.dma_length;
	EXPECT_EQ(check_length(idle, longest), Verdict::accept);
	EXPECT_EQ(check_length(idle, longer), Verdict::nak_invalid_request);

	RequestPacket write{.psn = 100, .facts = facts(Opcode::rc_write_first), .length = 1024, .dma_length = 1u << 31};
	EXPECT_EQ(check_length(idle, write), Verdict::accept);
	write.dma_length = 0xffffffff;
	EXPECT_EQ(check_length(idle, write), Verdict::nak_invalid_request);
}

}  // namespace
}  // namespace verbena::transport
