// SPDX-License-Identifier: Apache-2.0
// The tests of the acknowledgements that finish_pass() leaves for the program's next request
// (docs/decisions/0034 and 0063).
#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "nic/adapter/adapter_fixture.h"

namespace verbena::adapter {
namespace {

using namespace transport;
using wire::Opcode;

// WRITEs are of `message_bytes` in two packets, or empty.
constexpr std::uint32_t mtu = 4096, message_bytes = 6000;  // the fixture's path MTU

class AckWait : public testing_tools::AdapterTest {
protected:
	QueuePair& receiver() {
		QueuePair& qp = connected();
		qp.remote_access = memory::remote_write;
		for (std::uint32_t i = 0; i < receives; ++i) *qp.receive_queue->prepare(i) = {.wr_id = i};
		qp.receive_queue->commit(receives);
		return qp;
	}
	// Whether the acknowledgement of these packets waits, all of which one pass took in.
	bool waits(const QueuePair& qp, std::initializer_list<Opcode> packets) {
		adapter.begin_pass(++now_);
		for (const Opcode opcode : packets) {
			wire::Slot slot = request(qp, psn_++, opcode);
			slot.reth = {0, {key_}, opcode == Opcode::rc_write_first ? message_bytes : 0};
			if (opcode == Opcode::rc_write_first) slot.length = mtu;
			if (opcode == Opcode::rc_write_last) slot.length = message_bytes - mtu;
			adapter.handle_slot(outlet, slot, payload_.data(), {});
		}
		const bool waits = adapter.finish_pass(Acks::may_wait);
		EXPECT_EQ(qp.state, QpState::rts);
		EXPECT_EQ(waits, qp.pending_answer == ack_pending);
		EXPECT_FALSE(adapter.finish_pass());
		EXPECT_EQ(qp.pending_answer, ack_none);
		return waits;
	}

private:
	static constexpr std::uint32_t receives = 8;

	std::vector<std::byte> memory_{message_bytes}, payload_{message_bytes};
	std::uint32_t key_ = adapter.context().keys.register_region({.protection_domain = 1,
		.iova = 0,
		.address = reinterpret_cast<std::uintptr_t>(memory_.data()),
		.length = message_bytes,
		.access = memory::local_write | memory::remote_write});
	Nanoseconds now_ = 0;
	std::uint32_t psn_ = 10;
};

// ib_write_lat with memory that peers cannot map: each message waited for a wake of the peer's
// progress thread, because its acknowledgement ended the peer's poll before the answer came.
TEST_F(AckWait, OnThisHostThatOfAWriteWaitsIfThePeerNeedsKicks) {
	const QueuePair& qp = receiver();
	EXPECT_FALSE(waits(qp, {Opcode::rc_write_only}));
	outlet.peer_needs_kicks = true;
	EXPECT_TRUE(waits(qp, {Opcode::rc_write_only}));
}

// Two programs that wrote to each other with 64 requests in flight became half as fast.
TEST_F(AckWait, ThatOfTwoMessagesDoesNot) {
	const QueuePair& qp = receiver();
	outlet.peer_needs_kicks = true;
	EXPECT_FALSE(waits(qp, {Opcode::rc_write_only, Opcode::rc_write_only}));
	EXPECT_FALSE(waits(qp, {Opcode::rc_write_only, Opcode::rc_write_only, Opcode::rc_write_only}));
	EXPECT_TRUE(waits(qp, {Opcode::rc_write_only}));
	outlet.lossless = false;
	EXPECT_FALSE(waits(qp, {Opcode::rc_send_only, Opcode::rc_send_only}));
}

TEST_F(AckWait, OnThisHostThatOfACompletedReceiveDoesNot) {
	const QueuePair& qp = receiver();
	outlet.peer_needs_kicks = true;
	EXPECT_FALSE(waits(qp, {Opcode::rc_send_only}));
	EXPECT_FALSE(waits(qp, {Opcode::rc_write_only_imm}));
	EXPECT_TRUE(waits(qp, {Opcode::rc_write_only}));
}

TEST_F(AckWait, ThatOfOneMessageWaitsAlsoIfItIsOfSeveralPackets) {
	const QueuePair& qp = receiver();
	for (const bool lossless : {true, false}) {
		outlet.lossless = lossless;
		outlet.peer_needs_kicks = lossless;
		EXPECT_TRUE(waits(qp, {Opcode::rc_write_first}));
		EXPECT_TRUE(waits(qp, {Opcode::rc_write_last}));
		EXPECT_TRUE(waits(qp, {Opcode::rc_write_first, Opcode::rc_write_last}));
	}
}

// While the acknowledgement waits, the peer's probe repeats its last packet. If that sent the
// acknowledgement alone, 64 KiB over UDP took 80 us instead of 40.
TEST_F(AckWait, ADuplicateDoesNotEndTheWait) {
	QueuePair& qp = receiver();
	outlet.lossless = false;
	handle(request(qp, 10));
	EXPECT_TRUE(adapter.finish_pass(Acks::may_wait));
	handle(request(qp, 10));
	EXPECT_TRUE(adapter.finish_pass(Acks::may_wait));
	EXPECT_EQ(qp.pending_answer, ack_pending);
	EXPECT_EQ(adapter.context().counters.duplicates, 1u);
}

TEST_F(AckWait, ToAnotherHostThatOfASendWaits) {
	const QueuePair& qp = receiver();
	outlet.lossless = false;
	EXPECT_TRUE(waits(qp, {Opcode::rc_send_only}));
	EXPECT_TRUE(waits(qp, {Opcode::rc_write_only}));
}

}  // namespace
}  // namespace verbena::adapter
