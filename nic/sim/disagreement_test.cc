// SPDX-License-Identifier: Apache-2.0
// Two ends that disagree about their connection: they exchanged wrong numbers, or one was reset and
// connected again. On every link the requester must fail with retry_exceeded and not wait forever.
#include <gtest/gtest.h>

#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using transport::QpState;
using transport::QpType;

class Disagreement : public testing::TestWithParam<bool> {
protected:
	FabricOptions link() const { return {.lossless = GetParam()}; }

	static void expect_given_up(Pair& pair) {
		EXPECT_TRUE(pair.settle());
		ASSERT_FALSE(pair.a.sent.empty());
		EXPECT_EQ(pair.a.sent.front().status, Status::retry_exceeded);
		EXPECT_EQ(pair.a.qp.state, QpState::error);
		EXPECT_EQ(pair.fabric.describe(), "");
	}
	// Resets the peer's queue pair and connects it again with another expected PSN.
	static void renew_peer(Pair& pair, std::uint32_t receive_psn) {
		const ConnectionOptions connection;
		pair.b.to_state(QpState::reset);
		make_ready_to_receive(pair.b, pair.a, connection, receive_psn);
		make_ready_to_send(pair.b, connection, connection.psn_b);
	}
};
INSTANTIATE_TEST_SUITE_P(
	, Disagreement, testing::Bool(), [](const auto& info) { return info.param ? "OnALosslessLink" : "OnALossyLink"; });

TEST_P(Disagreement, APeerThatExpectsEarlierPsnsIsGivenUp) {
	Pair pair(link());
	renew_peer(pair, ConnectionOptions{}.psn_a - 1000);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
}

TEST_P(Disagreement, APeerThatExpectsLaterPsnsIsGivenUp) {
	Pair pair(link());
	renew_peer(pair, ConnectionOptions{}.psn_a + 1000);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
}

TEST_P(Disagreement, APeerThatHasReportedTheGapAlreadyIsGivenUpAgain) {
	Pair pair(link());
	renew_peer(pair, ConnectionOptions{}.psn_a - 1000);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
	pair.a.sent.clear();
	pair.a.to_state(QpState::reset);
	make_ready_to_receive(pair.a, pair.b, {}, ConnectionOptions{}.psn_b);
	make_ready_to_send(pair.a, {}, ConnectionOptions{}.psn_a);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
}

TEST_P(Disagreement, AnAtomicThatThePeerTakesForAnUnknownDuplicateIsGivenUp) {
	Pair pair(link());
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64);
	renew_peer(pair, ConnectionOptions{}.psn_a + 1000);
	pair.a.post({.opcode = SendOpcode::fetch_add,
		.segments = {local.segment(0, 8)},
		.remote_address = remote.at(0),
		.rkey = remote.key()});
	expect_given_up(pair);
	EXPECT_TRUE(untouched(remote.bytes()));
}

TEST_P(Disagreement, AQueuePairOfAnotherKindIsGivenUp) {
	Pair pair(link());
	Endpoint datagrams(pair.host_b, {.type = QpType::ud});
	activate(datagrams, 7);
	pair.a.to_state(QpState::reset);
	make_ready_to_receive(pair.a, datagrams, {}, 0);
	make_ready_to_send(pair.a, {}, 0);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
}

TEST_P(Disagreement, AQueuePairThatIsConnectedToAnotherHostIsGivenUp) {
	Pair pair(link());
	Endpoint elsewhere(pair.fabric.add_host());
	pair.b.to_state(QpState::reset);
	make_ready_to_receive(pair.b, elsewhere, {}, ConnectionOptions{}.psn_a);
	pair.a.post({.opcode = SendOpcode::send});
	expect_given_up(pair);
}

// A meaningless acknowledgement starts a timer, which must not fail a connection that makes
// progress.
TEST_P(Disagreement, AStrayAcknowledgementDoesNoHarm) {
	Pair pair(link());
	pair.a.post({.opcode = SendOpcode::send});
	pair.fabric.pass(pair.host_a, [&] {
		wire::Slot stray;
		stray.set_bth(wire::Opcode::rc_acknowledge, {pair.a.qp.qpn}, {0x700000}, 0);
		stray.set_aeth(wire::syndrome::ack, 0);
		stray.length = 0;
		pair.host_a.adapter.handle_slot(pair.fabric.outlet(pair.host_a, pair.host_b), stray, stray.bytes, {});
	});
	pair.b.post_receive(1, std::span<const queues::Segment>{});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), std::vector{Status::success});
	EXPECT_EQ(pair.a.qp.state, QpState::rts);
}

}  // namespace
}  // namespace verbena::sim
