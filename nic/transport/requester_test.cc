// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/requester.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nic/transport/recovery.h"

namespace verbena::transport {
namespace {

using queues::SendOpcode;
using queues::SendWqe;
using wire::Opcode;
using wire::Slot;

// A queue pair in RTS over a same-host outlet that only the test drains.
class Requester : public testing::Test {
protected:
	explicit Requester(QpType type = QpType::rc) : cq(64) {
		memory = std::vector<std::byte>(1 << 20);
		key = context.keys.register_region({.protection_domain = 1,
			.iova = 0,
			.address = reinterpret_cast<std::uintptr_t>(memory.data()),
			.length = memory.size(),
			.access = memory::local_write});
		outlet.slots.attach(direction.get());
		outlet.acks.attach(direction.get());
		reader.attach(direction.get());
		prepare(qp, 0x1001);
		qp.type = type;
	}
	void prepare(QueuePair& one, std::uint32_t qpn) {
		one.cold = std::make_unique<ColdQueuePair>();
		one.cold->qp = &one;
		one.cold->protection_domain = 1;
		one.cold->send_ring = std::make_unique<std::byte[]>(16 * 128);
		one.sq = one.cold->send_ring.get();
		one.sq_mask = 15;
		one.sq_stride = 128;
		one.state = QpState::rts;
		one.outlet = &outlet;
		one.destination_qpn = 0x42;
		one.send_cq = &cq;
		one.reads_max = 4;
		one.qpn = qpn;
		one.next_psn = one.una = (Psn{1} << 32) + 0xfffffe;
	}

	SendWqe& post(SendOpcode opcode, std::uint32_t length) {
		SendWqe& wqe = qp.wqe(qp.sq_head);
		wqe = SendWqe{};
		wqe.opcode = opcode;
		wqe.length = length;
		wqe.segment_count = 1;
		wqe.segments()[0] = {0, length, key};
		++qp.sq_head;
		return wqe;
	}
	std::vector<Slot> sent() {
		transmit(context, qp);
		std::vector<Slot> slots;
		Slot slot;
		while (reader.read(slot)) {
			slots.push_back(slot);
			reader.advance();
		}
		reader.release();
		return slots;
	}
	std::vector<Opcode> opcodes() {
		std::vector<Opcode> list;
		for (const Slot& slot : sent()) list.push_back(slot.opcode());
		return list;
	}

	Context context{1, 0};
	std::unique_ptr<wire::Direction> direction = std::make_unique<wire::Direction>();
	wire::SlotReader reader;
	Outlet outlet;
	queues::CompletionQueue cq;
	QueuePair qp;
	std::vector<std::byte> memory;
	std::uint32_t key;
};

using enum Opcode;
using Opcodes = std::vector<Opcode>;

struct Positions {
	SendOpcode opcode;
	Opcode only, first, middle, last;
};

class RequesterOpcodes : public Requester, public testing::WithParamInterface<Positions> {};
TEST_P(RequesterOpcodes, FollowThePositionInTheMessage) {
	const Positions& row = GetParam();
	post(row.opcode, 8192);
	EXPECT_EQ(opcodes(), Opcodes{row.only}) << "a run that begins and ends the message";
	post(row.opcode, 3 * 8192);
	EXPECT_EQ(opcodes(), (Opcodes{row.first, row.middle, row.last}));
	post(row.opcode, 8193);
	EXPECT_EQ(opcodes(), (Opcodes{row.first, row.last}));
	post(row.opcode, 0);
	EXPECT_EQ(opcodes(), Opcodes{row.only});
}
INSTANTIATE_TEST_SUITE_P(Rc, RequesterOpcodes,
	testing::Values(Positions{SendOpcode::send, rc_send_only, rc_send_first, rc_send_middle, rc_send_last},
		Positions{SendOpcode::send_imm, rc_send_only_imm, rc_send_first, rc_send_middle, rc_send_last_imm},
		Positions{SendOpcode::send_invalidate, rc_send_only_invalidate, rc_send_first, rc_send_middle,
			rc_send_last_invalidate},
		Positions{SendOpcode::rdma_write, rc_write_only, rc_write_first, rc_write_middle, rc_write_last},
		Positions{SendOpcode::rdma_write_imm, rc_write_only_imm, rc_write_first, rc_write_middle, rc_write_last_imm}));

class UcRequester : public Requester {
protected:
	UcRequester() : Requester(QpType::uc) {}
};
TEST_F(UcRequester, UsesTheOpcodesOfItsTransport) {
	post(SendOpcode::send_imm, 3 * 8192);
	post(SendOpcode::rdma_write, 10);
	EXPECT_EQ(opcodes(), (Opcodes{uc_send_first, uc_send_middle, uc_send_last_imm, uc_write_only}));
	EXPECT_EQ(qp.sq_tail, 2u) << "unreliable requests complete when they are sent";
}

TEST_F(Requester, PsnsCountPathMtusAndWrapAt24Bits) {
	post(SendOpcode::send, 1024);
	post(SendOpcode::send, 5000);
	post(SendOpcode::rdma_read, 3000);
	post(SendOpcode::send, 0);
	std::vector<std::uint32_t> psns;
	for (const Slot& slot : sent()) psns.push_back(slot.psn().value);
	EXPECT_EQ(psns, (std::vector<std::uint32_t>{0xfffffe, 0xffffff, 4, 7}));
	EXPECT_EQ(qp.next_psn, (Psn{1} << 32) + 0x1000000 + 8);
}

TEST_F(Requester, TheFirstPacketOfAWriteHasItsWholeLength) {
	post(SendOpcode::rdma_write, 20'000).rdma = {0x1234, 0x77};
	const auto slots = sent();
	ASSERT_EQ(slots.size(), 3u);
	EXPECT_EQ(slots[0].reth.address, 0x1234u);
	EXPECT_EQ(slots[0].reth.dma_length, 20'000u);
	EXPECT_EQ(slots[0].reth.rkey.value, 0x77u);
}

TEST_F(Requester, OnlyTheLastPacketOfAMessageIsSolicited) {
	post(SendOpcode::send, 20'000).flags = queues::send_solicited;
	std::vector<bool> solicited;
	for (const Slot& slot : sent()) solicited.push_back(slot.solicited());
	EXPECT_EQ(solicited, (std::vector{false, false, true}));
}

TEST_F(Requester, SendsNoMoreReadsThanThePeerAllows) {
	for (int i = 0; i < 6; ++i) post(SendOpcode::rdma_read, 8);
	EXPECT_EQ(sent().size(), 4u);
	EXPECT_TRUE(sent().empty());
}

TEST_F(Requester, WaitsForRoomInAFullRingAndContinuesWhereItStopped) {
	post(SendOpcode::send, 1 << 19);  // twice the arena
	transmit(context, qp);
	EXPECT_EQ(qp.blocked, blocked_ring);
	EXPECT_EQ(outlet.waiting_first, &qp);
	std::uint32_t bytes = 0;
	for (const Slot& slot : sent()) bytes += slot.length;
	EXPECT_EQ(bytes, wire::Direction::arena_bytes);
	resume_waiting(context, outlet);
	EXPECT_EQ(outlet.waiting_first, nullptr);
	for (const Slot& slot : sent()) bytes += slot.length;
	EXPECT_EQ(bytes, 1u << 19);
}

// Regression: with 20,000 queue pairs behind a full ring, each free slot was offered to all of
// them.
TEST_F(Requester, RoomGoesToTheQueuePairThatHasWaitedLongest) {
	QueuePair others[2];
	for (std::uint32_t i = 0; i < 2; ++i) prepare(others[i], qp.qpn + 1 + i);
	post(SendOpcode::send, 1 << 19);
	transmit(context, qp);
	for (QueuePair& other : others) {
		std::memcpy(other.sq, qp.sq, 128);
		other.wqe(0).length = other.wqe(0).segments()[0].length = 8192;
		++other.sq_head;
		transmit(context, other);
	}
	const auto take_one = [&] {
		Slot slot;
		ASSERT_TRUE(reader.read(slot));
		reader.advance();
		reader.release();
		resume_waiting(context, outlet);
	};
	take_one();
	EXPECT_EQ(outlet.waiting_first, &others[0]) << "a queue pair that sent something re-queues last";
	EXPECT_EQ(outlet.waiting_last, &qp);
	EXPECT_EQ(others[0].sq_next, 0u);
	take_one();
	EXPECT_EQ(outlet.waiting_first, &others[1]) << "a queue pair that sent nothing keeps its place";
	EXPECT_EQ(others[0].sq_next, 1u);
	take_one();
	EXPECT_EQ(outlet.waiting_first, &qp);
	EXPECT_EQ(outlet.waiting_last, &qp);
}

TEST_F(UcRequester, DropsMessagesToAStalledPeerAndSendsAgainWhenItContinues) {
	for (int i = 0; i < 2; ++i) post(SendOpcode::send, 1 << 18);
	transmit(context, qp);  // the first fills the ring
	EXPECT_EQ(qp.sq_tail, 1u);
	context.now += stalled_peer_timeout;
	resume_waiting(context, outlet);
	EXPECT_EQ(qp.sq_tail, 1u) << "the peer does not count as stalled yet";
	context.now += 1;
	resume_waiting(context, outlet);
	EXPECT_EQ(qp.sq_tail, 2u);
	post(SendOpcode::send, 8192);
	transmit(context, qp);
	EXPECT_EQ(qp.sq_tail, 3u) << "dropped at once while the peer is stalled";
	EXPECT_EQ(context.counters.datagrams_dropped_ring_full, 2u);

	sent();
	post(SendOpcode::send, 1 << 19);  // twice the ring
	std::uint32_t bytes = 0;
	for (const Slot& slot : sent()) bytes += slot.length;
	resume_waiting(context, outlet);
	for (const Slot& slot : sent()) bytes += slot.length;
	EXPECT_EQ(bytes, 1u << 19);
	EXPECT_EQ(context.counters.datagrams_dropped_ring_full, 2u);
}

TEST_F(Requester, StopsAtItsWindowOnALinkThatCanLosePackets) {
	outlet.lossless = false;
	post(SendOpcode::send, 1 << 18);
	std::uint32_t packets = 0;
	for (const Slot& slot : sent()) packets += qp.packets_for(slot.length);
	EXPECT_EQ(packets, window_bytes_first >> qp.mtu_shift);
	EXPECT_EQ(qp.blocked, blocked_window);
	context.timers.cancel(*qp.cold);
}

// The ICRC is computed from the slot's payload later, and the kernel reads it again after that
// (docs/decisions/0058).
TEST_F(Requester, ReadsAPayloadOnce) {
	outlet.lossless = false;
	std::ranges::fill(memory, std::byte{1});
	post(SendOpcode::rdma_write, 4096);
	transmit(context, qp);
	std::ranges::fill(memory, std::byte{2});
	Slot slot;
	ASSERT_TRUE(reader.read(slot));
	const std::span payload(reader.payload(slot, sizeof(wire::Reth)), slot.length);
	EXPECT_EQ(std::ranges::count(payload, std::byte{1}), 4096);
	context.timers.cancel(*qp.cold);
}

// Each acknowledged packet let another one leave, alone.
TEST_F(Requester, WaitsUntilTheWindowHasRoomForABatch) {
	outlet.lossless = false;
	post(SendOpcode::send, 1 << 18);
	sent();
	std::vector<std::uint32_t> batches;
	for (int acknowledged = 0; acknowledged < 32; ++acknowledged) {
		++qp.una;
		qp.blocked = 0;
		transmit(context, qp);
		std::uint32_t packets = 0;
		for (const Slot& slot : sent()) packets += qp.packets_for(slot.length);
		if (packets != 0) batches.push_back(packets);
	}
	EXPECT_EQ(batches, (std::vector<std::uint32_t>{16, 16}));
	context.timers.cancel(*qp.cold);
}

TEST_F(Requester, SendsTheRestOfAMessageWithoutWaitingForABatch) {
	outlet.lossless = false;
	post(SendOpcode::send, window_bytes_first + 3000);
	sent();
	qp.una += 3;
	qp.blocked = 0;
	transmit(context, qp);
	std::uint32_t bytes = 0;
	for (const Slot& slot : sent()) bytes += slot.length;
	EXPECT_EQ(bytes, 3000u);
	context.timers.cancel(*qp.cold);
}

}  // namespace
}  // namespace verbena::transport
