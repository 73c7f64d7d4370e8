// SPDX-License-Identifier: Apache-2.0
// READ responses whose payload the responder does not copy: the slot names a file and an offset,
// and the requester copies from there (docs/decisions/0016).
#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

#include "nic/adapter/adapter_fixture.h"

namespace verbena::adapter {
namespace {

using namespace transport;
using queues::Status;
using wire::Direction;
using wire::Slot;

constexpr std::uint64_t file_offset = 1 << 20;

// The adapter is the responder; 96 KiB of its memory lie in a file that the peer can map.
class SharedResponseResponder : public testing_tools::AdapterTest {
protected:
	SharedResponseResponder() : memory(96 << 10) {
		const auto address = reinterpret_cast<std::uint64_t>(memory.data());
		key = adapter.context().keys.register_region({.protection_domain = 1,
			.iova = address,
			.address = address,
			.length = memory.size(),
			.access = memory::remote_read});
		adapter.context().shared.add(address, memory.size(), {.file = 77, .offset = file_offset, .descriptor = 9});
		slots.announce_mapping(true);
	}
	QueuePair& responder() {
		QueuePair& qp = connected(QpState::rtr);
		qp.remote_access = memory::remote_read;
		return qp;
	}
	void ask(QueuePair& qp, std::uint64_t offset, std::uint32_t length, std::uint32_t psn = 10) {
		Slot slot = request(qp, psn, wire::Opcode::rc_read_request);
		slot.reth = {reinterpret_cast<std::uint64_t>(memory.data()) + offset, {key}, length};
		adapter.begin_pass(1);
		handle(slot);
		adapter.finish_pass();
	}

	std::vector<std::byte> memory;
	std::uint32_t key = 0;
	Slot answer;
};

TEST_F(SharedResponseResponder, SendsAFileOffsetInsteadOfACopy) {
	ask(responder(), 4096, 80 << 10);
	for (std::uint32_t done = 0; done < 80 << 10; done += answer.length) {
		ASSERT_TRUE(slots.read(answer));
		EXPECT_EQ(answer.payload_line, Slot::shared_payload);
		EXPECT_EQ(answer.shared.file, 77u);
		EXPECT_EQ(answer.shared.descriptor, 9u);
		EXPECT_EQ(answer.shared.offset, file_offset + 4096 + done);
		EXPECT_EQ(answer.length, std::min(Direction::shared_payload_bytes_max, (80u << 10) - done));
		EXPECT_TRUE(slots.still_shared());
		slots.advance();
	}
	EXPECT_FALSE(slots.read(answer));
}

TEST_F(SharedResponseResponder, CopiesAPayloadThatIsSmallOrPrivateOrThatThePeerCannotMap) {
	QueuePair& qp = responder();
	ask(qp, 0, Direction::shared_payload_bytes_min - 1);
	ASSERT_TRUE(slots.read(answer));
	EXPECT_NE(answer.payload_line, Slot::shared_payload);
	slots.advance();

	slots.announce_mapping(false);
	ask(qp, 0, Direction::shared_payload_bytes_min, 18);
	ASSERT_TRUE(slots.read(answer));
	EXPECT_NE(answer.payload_line, Slot::shared_payload);
	slots.advance();

	slots.announce_mapping(true);
	adapter.context().shared.remove(
		reinterpret_cast<std::uint64_t>(memory.data()), {.file = 77, .offset = file_offset, .descriptor = 9});
	ask(qp, 0, Direction::shared_payload_bytes_min, 26);
	ASSERT_TRUE(slots.read(answer));
	EXPECT_NE(answer.payload_line, Slot::shared_payload);
}

TEST_F(SharedResponseResponder, RevokesUnreadResponsesWhenTheirKeyIsDeregistered) {
	QueuePair& qp = responder();
	ask(qp, 0, 64 << 10);
	ASSERT_TRUE(slots.read(answer));
	EXPECT_TRUE(slots.still_shared());
	slots.advance();
	slots.release();
	const std::uint32_t another = adapter.context().keys.register_region(
		{.protection_domain = 1, .iova = 0, .address = 0, .length = 1, .access = 0});
	EXPECT_TRUE(adapter.context().deregister(another));
	ASSERT_TRUE(slots.read(answer));
	EXPECT_TRUE(slots.still_shared());
	EXPECT_TRUE(adapter.context().deregister(key));
	EXPECT_FALSE(slots.still_shared());
}

// A peer may send any key in a SEND with Invalidate. A key that it must not invalidate stays valid,
// so responses shared under it stay usable.
TEST_F(SharedResponseResponder, KeepsResponsesWhenAPeerMayNotInvalidateTheirKey) {
	QueuePair& qp = responder();
	ask(qp, 0, 16 << 10);
	ASSERT_TRUE(slots.read(answer));
	for (const std::uint32_t wrong : {key, key ^ 1}) {
		EXPECT_FALSE(adapter.context().invalidate(wrong, qp.accessor()));
		EXPECT_TRUE(slots.still_shared());
	}
	QueuePair& other = responder();
	queues::ReceiveWqe* const receive = other.receive_queue->prepare(0);
	receive->length = receive->segment_count = 0;
	other.receive_queue->commit(1);
	Slot hostile = request(other, 10, wire::Opcode::rc_send_only_invalidate);
	hostile.word = key;
	adapter.begin_pass(2);
	handle(hostile);
	EXPECT_TRUE(slots.still_shared());
}

TEST_F(SharedResponseResponder, RevokesResponsesOfAQueuePairThatIsResetOrDestroyed) {
	for (const bool destroyed : {false, true}) {
		QueuePair& qp = responder();
		ask(qp, 0, 16 << 10);
		ASSERT_TRUE(slots.read(answer));
		EXPECT_TRUE(slots.still_shared());
		if (destroyed) adapter.destroy_qp(qp);
		else EXPECT_TRUE(modify(qp, QpState::reset, 0));
		EXPECT_FALSE(slots.still_shared());
		slots.advance();
		slots.release();
	}
}

TEST_F(SharedResponseResponder, TracksResponsesOverSeveralRoundsOfTheRing) {
	QueuePair& qp = responder();
	const std::uint32_t packets = (8u << 10) / qp.path_mtu();
	for (std::uint32_t i = 0; i < 3 * Direction::slot_count; ++i) {
		ask(qp, 0, 8 << 10, 10 + i * packets);
		ASSERT_TRUE(slots.read(answer)) << i;
		EXPECT_TRUE(slots.still_shared());
		const bool last = i + 1 == 3 * Direction::slot_count;
		EXPECT_EQ(last && adapter.context().deregister(key), last);
		EXPECT_EQ(slots.still_shared(), !last);
		slots.advance();
		slots.release();
	}
}

// The adapter is the requester; the test plays the responder.
class SharedResponseRequester : public testing_tools::AdapterTest {
protected:
	SharedResponseRequester() : memory(64 << 10) {
		const auto address = reinterpret_cast<std::uint64_t>(memory.data());
		key = adapter.context().keys.register_region({.protection_domain = 1,
			.iova = address,
			.address = address,
			.length = memory.size(),
			.access = memory::local_use | memory::local_write});
		qp = &connected();
		qp->reads_max = 4;
		queues::SendWqe& wqe = qp->wqe(qp->sq_head);
		wqe = {};
		wqe.opcode = queues::SendOpcode::rdma_read;
		wqe.flags = queues::send_signaled;
		wqe.length = 16 << 10;
		wqe.segment_count = 1;
		wqe.segments()[0] = {address, wqe.length, key};
		++qp->sq_head;
		adapter.transmit(*qp);

		answers = std::make_unique<Direction>();
		writer.attach(answers.get());
		shared_by.attach(answers.get());
		writer.publish_shared(writer.reserve(0, sizeof(wire::SharedPayload)).slot, {}, 16 << 10, 5, {0x777});
		EXPECT_TRUE(shared_by.read(answer));
		answer.set_bth(wire::Opcode::rc_read_response_only, {qp->qpn}, {20}, 3 << wire::slot_mtu_shift);
		answer.set_aeth(wire::syndrome::ack, 1);
	}
	Status status() {
		Status status = Status::success;
		EXPECT_EQ(cq.drain(1, [&](const queues::Completion& completion, int) { status = completion.status; }), 1);
		return status;
	}

	std::vector<std::byte> memory;
	std::uint32_t key = 0;
	QueuePair* qp = nullptr;
	std::unique_ptr<Direction> answers;
	wire::SlotWriter writer;
	wire::SlotReader shared_by;
	Slot answer;
	const std::vector<std::byte> payload = std::vector<std::byte>(16 << 10, std::byte{42});
};

TEST_F(SharedResponseRequester, CopiesASharedPayload) {
	adapter.handle_shared(outlet, answer, payload.data(), shared_by);
	EXPECT_EQ(status(), Status::success);
	EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory.begin()));
}

// A server can revoke shared memory while a client is stopped in the middle of its READ. The bytes
// that the client copies after that may belong to another request, so it must discard them.
TEST_F(SharedResponseRequester, FailsAReadWhoseResponseWasRevokedMeanwhile) {
	writer.revoke([](std::uint32_t, wire::Qpn) { return true; });
	adapter.handle_shared(outlet, answer, payload.data(), shared_by);
	EXPECT_EQ(status(), Status::remote_access);
}

TEST_F(SharedResponseRequester, FailsIfThePeersFileCannotBeMapped) {
	adapter.handle_shared(outlet, answer, nullptr, shared_by);
	EXPECT_EQ(status(), Status::remote_operation);
}

}  // namespace
}  // namespace verbena::adapter
