// SPDX-License-Identifier: Apache-2.0
// The fixture of the adapter's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "nic/adapter/channel_adapter.h"

namespace verbena::adapter::testing_tools {

using namespace transport;

// One adapter with one outlet. The test plays the peer: it hands slots to the adapter and reads
// the slots and acknowledgement records that the adapter writes into `direction`.
class AdapterTest : public testing::Test {
protected:
	AdapterTest() : cq(64) {
		adapter.queue_pairs().add_block(1, 99);
		outlet.slots.attach(direction.get());
		outlet.acks.attach(direction.get());
		outlet.peer = 5;
		acks.attach(direction.get());
		slots.attach(direction.get());
	}
	QueuePair& create(QpType type = QpType::rc) {
		return *adapter.create_qp({.type = type,
			.protection_domain = 1,
			.send_cq = &cq,
			.recv_cq = &cq,
			.send_entries = 8,
			.receive_entries = 8});
	}
	// `mask` names the attributes besides the state; both PSNs are `psn`.
	bool modify(QueuePair& qp, QpState to, std::uint32_t mask, std::uint32_t psn = 0) {
		return adapter.modify_qp(qp,
			{.mask = qp_state | mask,
				.state = to,
				.receive_psn = psn,
				.send_psn = psn,
				.destination_qpn = 0x777,
				.outlet = &outlet});
	}
	// An RC queue pair in state `to`, connected to QPN 0x777. It expects PSN 10 and sends from 20.
	QueuePair& connected(QpState to = QpState::rts) {
		QueuePair& qp = create();
		EXPECT_TRUE(modify(qp, QpState::init, qp_pkey_index | qp_port | qp_access_flags));
		if (to == QpState::init) return qp;
		QpChange change{.mask = qp_state | qp_av | qp_path_mtu | qp_destination_qpn | qp_rq_psn |
				qp_max_dest_rd_atomic | qp_min_rnr_timer,
			.state = QpState::rtr,
			.receive_psn = 10,
			.destination_qpn = 0x777,
			.outlet = &outlet};
		EXPECT_TRUE(adapter.modify_qp(qp, change));
		if (to == QpState::rtr) return qp;
		EXPECT_TRUE(
			modify(qp, QpState::rts, qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic | qp_sq_psn, 20));
		return qp;
	}
	// A request without payload from the connected peer.
	static wire::Slot request(
		const QueuePair& qp, std::uint32_t psn, wire::Opcode opcode = wire::Opcode::rc_write_only) {
		wire::Slot slot;
		slot.lap_source = 0x777;
		slot.set_bth(opcode, {qp.qpn}, {psn}, 3 << wire::slot_mtu_shift);
		slot.payload_line = wire::Slot::inline_payload;
		slot.length = 0;
		return slot;
	}
	void handle(const wire::Slot& slot) { adapter.handle_slot(outlet, slot, slot.bytes, {}); }
	// An RC queue pair whose acknowledgements fill the outlet's records, and one more that waits,
	// for PSN 10 + ack_count.
	QueuePair& with_unsent_acknowledgement() {
		QueuePair& qp = connected();
		qp.remote_access = memory::remote_write;
		for (std::uint32_t i = 0; i <= wire::Direction::ack_count; ++i) {
			adapter.begin_pass(i);
			handle(request(qp, 10 + i));
			adapter.finish_pass();
		}
		return qp;
	}
	// After the next pass, no answer waits, and the next slot has this one for the peer.
	void expect_answer_in_slot(std::uint8_t syndrome, std::uint32_t psn) {
		adapter.begin_pass(1000);
		adapter.finish_pass();
		EXPECT_TRUE(adapter.context().refusals.empty());
		wire::Slot slot;
		ASSERT_TRUE(slots.read(slot));
		EXPECT_EQ(slot.opcode(), wire::Opcode::rc_acknowledge);
		EXPECT_EQ(slot.destination().value, 0x777u);
		EXPECT_EQ(slot.psn().value, psn);
		EXPECT_EQ(slot.word >> 24, syndrome);
	}

	queues::CompletionQueue cq;
	std::unique_ptr<wire::Direction> direction = std::make_unique<wire::Direction>();
	Outlet outlet;  // the adapter writes into `direction` through it
	wire::AckReader acks;  // read `direction` as the peer would
	wire::SlotReader slots;
	ChannelAdapter adapter{1};
};

}  // namespace verbena::adapter::testing_tools
