// SPDX-License-Identifier: Apache-2.0
#include "nic/adapter/channel_adapter.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "nic/adapter/adapter_fixture.h"

namespace verbena::adapter {
namespace {

using namespace transport;
using queues::Status;

class Adapter : public testing_tools::AdapterTest {};

TEST_F(Adapter, ARefusedChangeChangesNothing) {
	QueuePair& qp = connected(QpState::init);
	EXPECT_FALSE(modify(qp, QpState::rts, qp_sq_psn, 5));
	EXPECT_EQ(qp.state, QpState::init);
	EXPECT_EQ(qp.next_psn, 0u);
	EXPECT_FALSE(adapter.modify_qp(
		qp, {.mask = qp_state | qp_current_state, .state = QpState::error, .current_state = QpState::rts}));
	EXPECT_EQ(qp.state, QpState::init);
}

TEST_F(Adapter, AllRequestsOfAPassAreAcknowledgedByOneRecord) {
	QueuePair& qp = connected();
	qp.remote_access = memory::remote_write;
	adapter.begin_pass(1);
	for (std::uint32_t psn = 10; psn < 15; ++psn) handle(request(qp, psn));
	adapter.finish_pass();
	wire::AckRecord record;
	ASSERT_TRUE(acks.read(record));
	EXPECT_EQ(record.syndrome(), wire::syndrome::ack);
	EXPECT_EQ(record.psn().value, 14u);
	EXPECT_EQ(record.destination().value, 0x777u);
	EXPECT_FALSE(acks.read(record));
	EXPECT_EQ(adapter.context().take_touched(), &outlet);
}

TEST_F(Adapter, AnAcknowledgementThatFindsNoRoomStaysPending) {
	with_unsent_acknowledgement();
	EXPECT_NE(adapter.context().responding_first, nullptr);
	wire::AckRecord record;
	while (acks.read(record)) {}
	EXPECT_EQ(record.psn().value, 10 + wire::Direction::ack_count - 1);
	adapter.begin_pass(1000);
	adapter.finish_pass();
	ASSERT_TRUE(acks.read(record));
	EXPECT_EQ(record.psn().value, 10 + wire::Direction::ack_count);
	EXPECT_EQ(adapter.context().responding_first, nullptr);
}

// A program that had all messages destroyed its queue pairs and ended. Its peer was too busy to
// make room for the last acknowledgements, and its requests failed.
TEST_F(Adapter, AnAcknowledgementThatFindsNoRoomOutlivesItsQueuePair) {
	QueuePair& qp = with_unsent_acknowledgement();
	adapter.destroy_qp(qp);
	expect_answer_in_slot(wire::syndrome::ack, 10 + wire::Direction::ack_count);
}

TEST_F(Adapter, AnAcknowledgementThatFindsNoRoomOutlivesAReset) {
	QueuePair& qp = with_unsent_acknowledgement();
	ASSERT_TRUE(adapter.modify_qp(qp, {.mask = qp_state, .state = QpState::reset}));
	expect_answer_in_slot(wire::syndrome::ack, 10 + wire::Direction::ack_count);
}

TEST_F(Adapter, ANakThatFindsNoRoomOutlivesItsQueuePair) {
	QueuePair& qp = connected();
	while (wire::Slot* const slot = outlet.slots.reserve(0, 0).slot) outlet.slots.publish(slot, 0);
	adapter.begin_pass(1);
	handle(request(qp, 10));  // it may not write
	adapter.finish_pass();
	adapter.destroy_qp(qp);
	wire::Slot slot;
	while (slots.read(slot)) slots.advance();
	slots.release();
	expect_answer_in_slot(wire::syndrome::nak_invalid_request, 10);
}

TEST_F(Adapter, AGapThatIsFilledInTheSamePassIsNotReported) {
	QueuePair& qp = connected();
	qp.remote_access = memory::remote_write | memory::remote_read;
	for (const bool read : {false, true}) {
		const auto expected = static_cast<std::uint32_t>(qp.expected_psn);
		adapter.begin_pass(1);
		handle(request(qp, expected + 1));
		handle(request(qp, expected, read ? wire::Opcode::rc_read_request : wire::Opcode::rc_write_only));
		adapter.finish_pass();
	}
	wire::AckRecord record;
	ASSERT_TRUE(acks.read(record));
	EXPECT_EQ(record.syndrome(), wire::syndrome::ack);
	wire::Slot slot;
	for (; slots.read(slot); slots.advance()) EXPECT_EQ(slot.syndrome(), wire::syndrome::ack);
}

TEST_F(Adapter, AConnectedQueuePairAcceptsPacketsOfItsPeerOnly) {
	QueuePair& qp = connected();
	qp.remote_access = memory::remote_write;
	auto back = std::make_unique<wire::Direction>();
	Outlet stranger;
	stranger.slots.attach(back.get());
	stranger.acks.attach(back.get());
	stranger.peer = 6;
	adapter.begin_pass(1);
	const wire::Slot slot = request(qp, 10);
	adapter.handle_slot(stranger, slot, slot.bytes, {});
	adapter.finish_pass();
	EXPECT_EQ(qp.expected_psn & 0xffffff, 10u);
	EXPECT_EQ(adapter.context().counters.dropped_wrong_state, 1u);
	// The stranger gets a refusal, because it has no timer.
	wire::SlotReader refusal;
	refusal.attach(back.get());
	EXPECT_TRUE(refusal.ready());
}

TEST_F(Adapter, ARequestForAQueuePairThatCannotReceiveIsRefusedOncePerPass) {
	QueuePair& qp = connected(QpState::init);
	adapter.begin_pass(1);
	for (std::uint32_t psn = 10; psn < 15; ++psn) handle(request(qp, psn));
	adapter.finish_pass();
	wire::Slot slot;
	ASSERT_TRUE(slots.read(slot));
	EXPECT_EQ(slot.opcode(), wire::Opcode::rc_acknowledge);
	EXPECT_EQ(slot.destination().value, 0x777u);
	EXPECT_EQ(slot.psn().value, 10u);
	slots.advance();
	EXPECT_FALSE(slots.read(slot));
}

// Two processes that connected to each other at the same moment have two links. A refusal on the
// wrong link would overtake the queue pair's responses.
TEST_F(Adapter, ARefusalTakesTheLinkOfTheQueuePairsResponses) {
	QueuePair& qp = connected();
	ASSERT_TRUE(modify(qp, QpState::error, 0));
	auto other_direction = std::make_unique<wire::Direction>();
	Outlet other;
	other.slots.attach(other_direction.get());
	other.acks.attach(other_direction.get());
	other.peer = outlet.peer;
	adapter.begin_pass(1);
	const wire::Slot slot = request(qp, 10);
	adapter.handle_slot(other, slot, slot.bytes, {});
	adapter.finish_pass();
	wire::SlotReader other_slots;
	other_slots.attach(other_direction.get());
	EXPECT_TRUE(slots.ready());
	EXPECT_FALSE(other_slots.ready());
}

TEST_F(Adapter, MalformedPacketsOnlyIncrementDropCounters) {
	QueuePair& qp = connected();
	outlet.lossless = false;
	adapter.begin_pass(1);
	handle(request(qp, 10, wire::Opcode::uc_send_only));
	handle(request(qp, 10, wire::Opcode::ud_send_only));
	handle(request(qp, 10, wire::Opcode(0xff)));
	wire::Slot unknown = request(qp, 10);
	unknown.destination_opcode = 0xabcdef00 | static_cast<std::uint8_t>(wire::Opcode::rc_send_only);
	handle(unknown);
	adapter.finish_pass();
	EXPECT_EQ(adapter.context().counters.dropped_malformed, 2u);
	EXPECT_EQ(adapter.context().counters.dropped_wrong_state, 1u);
	EXPECT_EQ(adapter.context().counters.dropped_no_qp, 1u);
	EXPECT_EQ(qp.state, QpState::rts);
	EXPECT_EQ(adapter.context().take_touched(), nullptr);
}

// A hostile peer can write any bytes into the shared ring. Each slot may raise a drop counter or
// put the queue pair into the error state, but no byte outside the region changes.
TEST_F(Adapter, SlotsOfRandomContentWriteNothingOutsideTheRegion) {
	Random random(7);
	std::vector<std::byte> memory(3 * 8192, std::byte{0xa5});
	const std::uint32_t key = adapter.context().keys.register_region({.protection_domain = 1,
		.iova = 0,
		.address = reinterpret_cast<std::uintptr_t>(memory.data() + 8192),
		.length = 8192,
		.access = memory::local_write | memory::remote_write | memory::remote_read | memory::remote_atomic});
	std::vector<std::byte> payload(8192);
	QueuePair* qp = &connected();
	for (int i = 0; i < 50'000; ++i) {
		if (qp->state == QpState::error) {
			adapter.destroy_qp(*qp);
			qp = &connected();
		}
		qp->remote_access = memory::remote_write | memory::remote_read | memory::remote_atomic;
		queues::ReceiveWqe* wqe = qp->receive_queue->prepare(0);
		if (wqe) {
			wqe->length = 8192;
			wqe->segment_count = 1;
			wqe->segments()[0] = {0, 8192, key};
			qp->receive_queue->commit(1);
		}
		wire::Slot slot;
		slot.set_bth(wire::Opcode(random.below(0x18)), {qp->qpn},
			{static_cast<std::uint32_t>(qp->expected_psn + random.below(20) / 18)},
			static_cast<std::uint8_t>(random()));
		slot.length = static_cast<std::uint32_t>(random.below(4) ? random.below(9) * 1024 : random.below(8193));
		slot.word = static_cast<std::uint32_t>(random());
		slot.reth = {random.below(2) ? random.below(8192) : random(),
			{random.below(8) ? key : static_cast<std::uint32_t>(random())},
			static_cast<std::uint32_t>(random.below(2) ? random.below(8193) : random())};
		adapter.begin_pass(i);
		adapter.handle_slot(outlet, slot, payload.data(), {});
		adapter.handle_ack(outlet, {random()});
		adapter.finish_pass();
		cq.drain(64, [](const queues::Completion&, int) {});
		wire::AckRecord record;
		while (acks.read(record)) {}
		for (; slots.read(slot); slots.advance()) {}
		slots.release();
	}
	EXPECT_TRUE(std::ranges::all_of(std::span(memory).first(8192), [](std::byte b) { return b == std::byte{0xa5}; }));
	EXPECT_TRUE(std::ranges::all_of(std::span(memory).last(8192), [](std::byte b) { return b == std::byte{0xa5}; }));
	EXPECT_GT(adapter.context().counters.requests_received, 20'000u);
	adapter.destroy_qp(*qp);
}

TEST_F(Adapter, AManagementDatagramIsAnsweredThroughItsOutlet) {
	adapter.connections().use_block(1);
	wire::AddressPair addresses{};
	addresses.source[15] = 1;
	addresses.destination[15] = 2;
	const cm::Req req{.local = {77}, .service = cm::service_of(cm::port_space::tcp, 9), .path_mtu = 3};
	adapter.begin_pass(1);
	adapter.handle_management(outlet, cm::write_message({5, req}), addresses);
	// 16 bytes are no management datagram, so this one is ignored.
	adapter.handle_management(outlet, std::as_bytes(std::span(addresses.source)), addresses);
	adapter.finish_pass();
	wire::Slot slot;
	ASSERT_TRUE(slots.read(slot));
	EXPECT_EQ(slot.opcode(), wire::management_datagram);
	EXPECT_EQ(slot.destination(), wire::general_services_qpn);
	const std::byte* payload = slots.payload(slot, sizeof(wire::Deth));
	ASSERT_NE(payload, nullptr);
	ASSERT_EQ(slot.length, sizeof addresses + wire::mad_size);
	wire::AddressPair back;
	std::memcpy(&back, payload, sizeof back);
	EXPECT_EQ(back.source[15], 2);
	EXPECT_EQ(back.destination[15], 1);
	const auto answer =
		cm::read_message(std::span<const std::byte, wire::mad_size>(payload + sizeof back, wire::mad_size));
	ASSERT_TRUE(answer.has_value());
	ASSERT_TRUE(std::holds_alternative<cm::Rej>(answer->message));
	EXPECT_EQ(std::get<cm::Rej>(answer->message).reason, cm::reject_reason::invalid_service);
	EXPECT_EQ(std::get<cm::Rej>(answer->message).remote, cm::CommId{77});
}

TEST_F(Adapter, ManagementDatagramsThroughAnAddressedOutletHaveAddressesOfTheirOwn) {
	adapter.connections().use_block(1);
	outlet.lossless = false;
	outlet.addressed = true;
	const cm::Req req{.local = {77}, .service = cm::service_of(cm::port_space::tcp, 9), .path_mtu = 3};
	constexpr int answers_max = wire::Direction::slot_count;
	adapter.begin_pass(1);
	for (int i = 0; i < answers_max + 10; ++i) {
		wire::AddressPair addresses{};
		addresses.source[14] = static_cast<std::uint8_t>(i >> 8);
		addresses.source[15] = static_cast<std::uint8_t>(i);
		adapter.handle_management(outlet, cm::write_message({5, req}), addresses);
	}
	int answers = 0;
	for (const int expected : {answers_max, 10}) {
		adapter.finish_pass();
		wire::Slot slot;
		int here = 0;
		for (; slots.read(slot); ++here, ++answers) {
			const wire::AddressPair& to = direction->addresses[slot.deth.address_index()];
			EXPECT_EQ(to.destination[14] << 8 | to.destination[15], answers);
			slots.advance();
		}
		slots.release();
		EXPECT_EQ(here, expected);
	}
}

TEST_F(Adapter, ManagementDatagramsThatFindNoRoomDoNotHoldUpOthers) {
	adapter.connections().use_block(1);
	const cm::Req req{.local = {77}, .service = cm::service_of(cm::port_space::tcp, 9), .path_mtu = 3};
	auto memory = std::make_unique<wire::Direction>();
	Outlet full;
	full.lossless = false;
	full.addressed = true;
	full.slots.attach(memory.get());
	adapter.begin_pass(1);
	for (std::uint32_t i = 0; i < 2 * cm::ConnectionManager::unsent_max; ++i)
		adapter.handle_management(full, cm::write_message({5, req}), {});
	adapter.finish_pass();
	EXPECT_EQ(adapter.connections().counters().refused_busy, std::uint64_t{cm::ConnectionManager::unsent_max})
		<< "strangers do not fill the memory either";
	wire::Slot slot;
	adapter.handle_management(outlet, cm::write_message({5, req}), {});
	adapter.finish_pass();
	EXPECT_TRUE(slots.read(slot));
}

TEST_F(Adapter, TheDeathOfAPeerFailsTheRequestsSentToIt) {
	QueuePair& busy = connected();
	QueuePair& idle = connected();
	queues::SendWqe& wqe = busy.wqe(0);
	wqe = {.wr_id = 3, .opcode = queues::SendOpcode::send};
	busy.sq_head = 1;
	adapter.begin_pass(1);
	adapter.transmit(busy);
	adapter.fail_outlet(outlet);
	adapter.finish_pass();
	std::vector<queues::Completion> completions;
	cq.drain(10, [&](const queues::Completion& c, int) { completions.push_back(c); });
	ASSERT_EQ(completions.size(), 1u);
	EXPECT_EQ(completions[0].status, Status::retry_exceeded);
	EXPECT_EQ(busy.state, QpState::error);
	EXPECT_EQ(idle.state, QpState::rts);
}

TEST_F(Adapter, AQueuePairIsDestroyedInAnyStateAndLeavesEveryList) {
	for (int i = 0; i < 3; ++i) {
		QueuePair& qp = connected();
		qp.remote_access = memory::remote_write;
		outlet.lossless = i != 1;
		adapter.begin_pass(1);
		handle(request(qp, 10));  // leaves an acknowledgement pending
		qp.wqe(0) = {.opcode = queues::SendOpcode::send};
		qp.sq_head = 1;
		adapter.transmit(qp);  // starts a timer if i = 1
		adapter.destroy_qp(qp);
		adapter.finish_pass();
		EXPECT_EQ(adapter.poll_timeout(), never);
		EXPECT_EQ(adapter.context().responding_first, nullptr);
	}
	EXPECT_EQ(adapter.queue_pairs().count(), 0u);
}

}  // namespace
}  // namespace verbena::adapter
