// SPDX-License-Identifier: Apache-2.0
// Operations that a requester executes in its peer's memory (docs/decisions/0036), and the rights
// that a responder publishes for its peers.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <vector>

#include "nic/adapter/adapter_fixture.h"
#include "nic/transport/direct.h"
#include "nic/transport/peer_memory.h"

namespace verbena::adapter {
namespace {

using namespace transport;
using memory::Backing;
using memory::KeyRights;
using memory::QueuePairRights;
using queues::SendOpcode;
using queues::SendWqe;

constexpr std::uint32_t peer_qpn = 0x777, rkey = 0x4444'01, domain = 3;
constexpr std::uint64_t remote = 0x10'0000, file = 55, token = 42;
constexpr std::uint32_t remote_bytes = 256 << 10;

// The peer's memory is a vector of this process, which stands for the peer's file and for its
// ordinary memory.
class Peer final : public PeerMemory {
public:
	Peer(const memory::RightsTable& rights, std::atomic<std::uint64_t>& announced)
		: PeerMemory(rights, announced, token), bytes(remote_bytes) {}

	bool read(std::uint64_t address, std::span<const iovec> pieces, std::uint32_t) override {
		for (const iovec& piece : pieces) {
			std::memcpy(piece.iov_base, bytes.data() + (address - remote), piece.iov_len);
			address += piece.iov_len;
		}
		interfere();
		return readable;
	}
	std::byte* map_anew(std::uint64_t, std::uint32_t, std::uint64_t offset, std::uint32_t, bool) override {
		interfere();
		return mappable ? bytes.data() + offset : nullptr;
	}

	std::vector<std::byte> bytes;
	bool mappable = true, readable = true;
	std::function<void()> interfere = [] {};  // during the operation
};

class Direct : public testing_tools::AdapterTest {
protected:
	Direct() : table(std::make_unique<memory::RightsTable>()), peer(*table, direction->direct_access), local(96 << 10) {
		publisher.attach(table.get());
		publisher.add_block(peer_qpn >> 12);
		publisher.publish(peer_queue_pair());
		publisher.publish(region());
		outlet.peer_memory = &peer;
		const auto address = reinterpret_cast<std::uint64_t>(local.data());
		lkey = adapter.context().keys.register_region({.protection_domain = 1,
			.iova = address,
			.address = address,
			.length = local.size(),
			.access = memory::local_write});
		for (std::size_t i = 0; i < local.size(); ++i) local[i] = std::byte(i * 7 + i / 256);
		qp = &connected();
		qp->reads_max = 4;
		publisher.publish(peer_queue_pair());
	}

	QueuePairRights peer_queue_pair() const {
		return {.qpn = peer_qpn,
			.destination_qpn = qp ? qp->qpn : 0,
			.protection_domain = domain,
			.access = memory::remote_write | memory::remote_read | memory::remote_atomic,
			.reads_max = 4,
			.first_psn = 20,
			.peer = token};
	}
	static KeyRights region() {
		return {.key = rkey,
			.protection_domain = domain,
			.access = memory::remote_write | memory::remote_read | memory::remote_atomic,
			.backing = Backing::heap,
			.begin = remote,
			.end = remote + remote_bytes,
			.file = file};
	}

	void put(SendOpcode opcode, std::uint32_t length, std::uint64_t address = remote) {
		const std::uint32_t head = qp->sq_head.load();
		SendWqe& wqe = qp->wqe(head);
		wqe = {.wr_id = head, .length = length, .opcode = opcode, .flags = queues::send_signaled, .segment_count = 1};
		wqe.rdma = {address, rkey};
		if (wqe.reads() && opcode != SendOpcode::rdma_read) wqe.atomic = {address, rkey, 0, 5, 9};
		*wqe.segments() = {reinterpret_cast<std::uint64_t>(local.data()), length, lkey};
		qp->sq_head.store(head + 1);
	}
	void transmit() {
		adapter.begin_pass(1);
		adapter.transmit(*qp);
		adapter.finish_pass();
	}
	std::uint32_t completed() const { return qp->sq_tail.load(); }
	std::uint64_t sent_by_ring() const { return outlet.slots.published(); }
	// Posts the request and returns whether it was executed without the ring.
	bool goes_direct(SendOpcode opcode, std::uint32_t length, std::uint64_t address = remote) {
		const std::uint32_t before = completed();
		const std::uint64_t slots_before = sent_by_ring();
		put(opcode, length, address);
		transmit();
		EXPECT_EQ(direction->direct_access.load(), 0u);
		EXPECT_NE(completed() == before + 1, sent_by_ring() == slots_before + 1);
		return completed() == before + 1;
	}

	std::unique_ptr<memory::RightsTable> table;
	memory::RightsPublisher publisher;
	Peer peer;
	std::vector<std::byte> local;
	std::uint32_t lkey = 0;
	QueuePair* qp = nullptr;
};

TEST_F(Direct, AWriteReachesThePeersMemoryAndCompletesWithoutASlot) {
	EXPECT_TRUE(goes_direct(SendOpcode::rdma_write, 100, remote + 8));
	EXPECT_TRUE(std::equal(local.begin(), local.begin() + 100, peer.bytes.begin() + 8));
	EXPECT_EQ(qp->next_psn, qp->una);
	EXPECT_EQ(peer.sent, (wire::Traffic{1, 12 + 16 + 100 + 4}));
}

TEST_F(Direct, AnAnnouncementNamesTheKeyAndTheQueuePair) {
	peer.announce(rkey, {peer_qpn});
	const wire::DirectAccess announced{direction->direct_access.load()};
	EXPECT_TRUE(announced);
	EXPECT_EQ(announced.key(), rkey);
	EXPECT_EQ(announced.qpn().value, peer_qpn);
	peer.retract();
	EXPECT_FALSE(wire::DirectAccess{direction->direct_access.load()});
}

TEST_F(Direct, AWriteWhoseRightChangesBeforeTheCopyGoesByTheRing) {
	peer.interfere = [&] { publisher.publish(region()); };
	EXPECT_FALSE(goes_direct(SendOpcode::rdma_write, 8));
	EXPECT_EQ(peer.bytes[0], std::byte{0});
}

TEST_F(Direct, AReadTakesFilesAndOrdinaryMemory) {
	std::ranges::fill(peer.bytes, std::byte{0x5a});
	EXPECT_TRUE(goes_direct(SendOpcode::rdma_read, 64));
	EXPECT_EQ(local[63], std::byte{0x5a});
	for (const Backing backing : {Backing::readable, Backing::none}) {
		KeyRights other = region();
		other.backing = backing;
		publisher.publish(other);
		std::ranges::fill(local, std::byte{0});
		EXPECT_TRUE(goes_direct(SendOpcode::rdma_read, 64));
		EXPECT_EQ(local[63], std::byte{0x5a});
		EXPECT_FALSE(goes_direct(SendOpcode::rdma_write, 8));
		// An acknowledgement ends the WRITE in the ring.
		adapter.handle_ack(outlet, {std::uint64_t{wire::syndrome::ack} << 48 | (qp->next_psn - 1) << 24 | qp->qpn});
	}
}

TEST_F(Direct, AnAtomicReturnsTheOldValue) {
	const std::uint64_t before = 1000;
	std::memcpy(peer.bytes.data() + 16, &before, 8);
	EXPECT_TRUE(goes_direct(SendOpcode::fetch_add, 8, remote + 16));
	std::uint64_t now, original;
	std::memcpy(&now, peer.bytes.data() + 16, 8);
	std::memcpy(&original, local.data(), 8);
	EXPECT_EQ(now, 1005u);
	EXPECT_EQ(original, 1000u);
}

TEST_F(Direct, WhatTheResponderWouldRefuseGoesByTheRing) {
	const auto refused = [&](const char* what, auto change_pair, auto change_region, SendOpcode opcode,
							 std::uint32_t length, std::uint64_t address) {
		SCOPED_TRACE(what);
		QueuePairRights pair = peer_queue_pair();
		KeyRights key = region();
		change_pair(pair);
		change_region(key);
		publisher.publish(pair);
		publisher.publish(key);
		EXPECT_FALSE(goes_direct(opcode, length, address));
		EXPECT_EQ(std::ranges::count(peer.bytes, std::byte{0}), remote_bytes);
		// Back to where the request was not posted.
		const std::uint32_t tail = qp->sq_tail.load();
		qp->sq_next = tail;
		qp->sq_head.store(tail);
		qp->next_psn = qp->una;
		qp->reads_in_flight = 0;
	};
	const auto same = [](auto&) {};
	using O = SendOpcode;
	refused("past the end", same, same, O::rdma_write, 2, remote + remote_bytes - 1);
	refused("before the beginning", same, same, O::rdma_write, 8, remote - 1);
	refused("an overflow", same, same, O::rdma_write, 8, ~std::uint64_t{0} - 3);
	refused("no remote write", same, [](auto& r) { r.access = memory::remote_read; }, O::rdma_write, 8, remote);
	refused("no remote read", same, [](auto& r) { r.access = memory::remote_write; }, O::rdma_read, 8, remote);
	refused("no remote atomic", same, [](auto& r) { r.access = memory::remote_write; }, O::fetch_add, 8, remote);
	refused("another domain", same, [](auto& r) { r.protection_domain = 4; }, O::rdma_write, 8, remote);
	refused(
		"the queue pair forbids it", [](auto& q) { q.access = memory::remote_read; }, same, O::rdma_write, 0, remote);
	refused("fewer READs than this side may send", [](auto& q) { q.reads_max = 3; }, same, O::rdma_read, 8, remote);
	refused("another destination", [](auto& q) { q.destination_qpn = 9; }, same, O::rdma_write, 8, remote);
	refused("another process", [](auto& q) { q.peer = 9; }, same, O::rdma_write, 8, remote);
	refused("other PSNs", [](auto& q) { q.first_psn = 21; }, same, O::rdma_write, 8, remote);
	refused("a misaligned atomic", same, same, O::fetch_add, 8, remote + 4);
	refused("a misaligned atomic of the memory", same, [](auto& r) { r.delta = 4; }, O::compare_swap, 8, remote);
	refused("a short atomic", same, same, O::fetch_add, 4, remote);
	peer.mappable = false;
	refused("no mapping", same, same, O::rdma_write, 8, remote);
}

TEST_F(Direct, AnEmptyWriteNeedsNoKey) {
	publisher.withdraw_key(rkey);
	EXPECT_TRUE(goes_direct(SendOpcode::rdma_write, 0));
	EXPECT_TRUE(goes_direct(SendOpcode::rdma_read, 0));
}

TEST_F(Direct, AfterASendInFlightAWriteGoesByTheRing) {
	put(SendOpcode::send, 8);
	put(SendOpcode::rdma_write, 8);
	transmit();
	EXPECT_EQ(sent_by_ring(), 2u);
	EXPECT_EQ(completed(), 0u);
}

// The peer's right comes into being when it has received the first request.
TEST_F(Direct, WritesWaitForThoseInTheRingOnceTheRightExists) {
	publisher.withdraw_queue_pair(peer_qpn);
	put(SendOpcode::rdma_write, 8);
	put(SendOpcode::rdma_write, 8);
	transmit();
	EXPECT_EQ(sent_by_ring(), 2u);
	publisher.publish(peer_queue_pair());
	put(SendOpcode::rdma_write, 8);
	transmit();
	EXPECT_EQ(sent_by_ring(), 2u);
	EXPECT_EQ(completed(), 0u);
	adapter.handle_ack(outlet, {std::uint64_t{wire::syndrome::ack} << 48 | (qp->next_psn - 1) << 24 | qp->qpn});
	EXPECT_EQ(sent_by_ring(), 2u);
	EXPECT_EQ(completed(), 3u);
}

TEST_F(Direct, ALongWriteIsExecutedInPartsAndLaterRequestsFollowIt) {
	put(SendOpcode::rdma_write, 80 << 10);
	put(SendOpcode::rdma_write, 8, remote + (100 << 10));
	transmit();
	const auto end = peer.bytes.begin() + direct_bytes_max;
	EXPECT_TRUE(std::equal(peer.bytes.begin(), end, local.begin()));
	EXPECT_EQ(*end, std::byte{0});
	EXPECT_EQ(completed(), 0u);
	EXPECT_TRUE(outlet.waiting_first == qp);
	EXPECT_TRUE(adapter.resume(outlet));
	EXPECT_EQ(completed(), 0u);
	EXPECT_TRUE(adapter.resume(outlet));
	EXPECT_EQ(completed(), 2u);
	EXPECT_TRUE(std::equal(local.begin(), local.begin() + (80 << 10), peer.bytes.begin()));
	EXPECT_FALSE(adapter.resume(outlet));
	EXPECT_EQ(outlet.waiting_first, nullptr);
	EXPECT_EQ(sent_by_ring(), 0u);
}

TEST_F(Direct, ALongWriteWhoseRightEndsInBetweenStartsAnewInTheRing) {
	put(SendOpcode::rdma_write, 80 << 10);
	transmit();
	publisher.withdraw_key(rkey);
	adapter.resume(outlet);
	ASSERT_GT(sent_by_ring(), 0u);
	wire::Slot first;
	ASSERT_TRUE(slots.read(first));
	EXPECT_EQ(first.opcode(), wire::Opcode::rc_write_first);
	EXPECT_EQ(qp->cold->direct_offset, 0u);
}

TEST_F(Direct, AReadWhoseRightEndsDuringTheCopyGoesByTheRing) {
	KeyRights ordinary = region();
	ordinary.backing = Backing::none;
	publisher.publish(ordinary);
	peer.interfere = [&] { publisher.withdraw_key(rkey); };
	EXPECT_FALSE(goes_direct(SendOpcode::rdma_read, 8));
}

TEST_F(Direct, ALocalSegmentWithoutARightFailsAsByTheRing) {
	put(SendOpcode::rdma_write, 8);
	qp->wqe(0).segments()->lkey ^= 0xff00;
	transmit();
	EXPECT_EQ(qp->state, QpState::error);
	EXPECT_EQ(peer.bytes[0], std::byte{0});
}

// The other side.

class Published : public testing_tools::AdapterTest {
protected:
	Published() : table(std::make_unique<memory::RightsTable>()) {
		adapter.context().rights.attach(table.get());
		adapter.context().rights.add_block(1);
	}
	bool has(std::uint32_t qpn) {
		memory::Seen<QueuePairRights> seen;
		return read_queue_pair(*table, qpn, seen);
	}
	std::unique_ptr<memory::RightsTable> table;
};

TEST_F(Published, AQueuePairIsPublishedWhileItTakesRequests) {
	QueuePair& qp = connected();
	EXPECT_TRUE(has(qp.qpn));
	EXPECT_TRUE(modify(qp, QpState::error, 0));
	EXPECT_FALSE(has(qp.qpn));
}

TEST_F(Published, InRtrItIsPublishedAfterItsFirstRequest) {
	QueuePair& qp = connected(QpState::rtr);
	EXPECT_FALSE(has(qp.qpn));
	handle(request(qp, 10, wire::Opcode::rc_send_only));
	EXPECT_TRUE(has(qp.qpn));
}

TEST_F(Published, AnErrorOfThePeerWithdrawsItAtOnce) {
	QueuePair& qp = connected();
	handle(request(qp, 10, wire::Opcode::rc_write_middle));  // continues no message
	EXPECT_EQ(qp.state, QpState::error);
	EXPECT_FALSE(has(qp.qpn));
}

TEST_F(Published, ItIsWithdrawnByResetAndDestroy) {
	QueuePair& first = connected();
	EXPECT_TRUE(modify(first, QpState::reset, 0));
	EXPECT_FALSE(has(first.qpn));
	QueuePair& second = connected();
	const std::uint32_t qpn = second.qpn;
	EXPECT_TRUE(has(qpn));
	adapter.destroy_qp(second);
	EXPECT_FALSE(has(qpn));
}

TEST_F(Published, AnEntryHasWhatTheRequesterChecks) {
	QueuePair& qp = connected();
	qp.remote_access = memory::remote_write | memory::remote_read | memory::remote_atomic;
	qp.cold->attributes.max_dest_rd_atomic = 3;
	publish_rights(adapter.context(), qp);
	memory::Seen<QueuePairRights> seen;
	ASSERT_TRUE(read_queue_pair(*table, qp.qpn, seen));
	EXPECT_EQ(seen.rights.access, qp.remote_access);
	EXPECT_EQ(seen.rights.reads_max, 3u);
	EXPECT_EQ(seen.rights.first_psn, 10u);
	EXPECT_EQ(seen.rights.destination_qpn, 0x777u);
	EXPECT_EQ(seen.rights.peer, 5u);
}

TEST_F(Published, ADeregisteredKeyIsWithdrawn) {
	const std::uint32_t key = adapter.context().keys.register_region(
		{.protection_domain = 1, .iova = 0x1000, .address = 0x1000, .length = 4096, .access = memory::remote_read});
	adapter.context().rights.publish(KeyRights{.key = key, .begin = 0x1000, .end = 0x2000});
	memory::Seen<KeyRights> seen;
	ASSERT_TRUE(read_key(*table, key, seen));
	EXPECT_TRUE(adapter.context().deregister(key));
	EXPECT_FALSE(unchanged(seen));
	EXPECT_FALSE(read_key(*table, key, seen));
}

}  // namespace
}  // namespace verbena::adapter
