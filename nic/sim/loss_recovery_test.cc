// SPDX-License-Identifier: Apache-2.0
// Recovery from losses without waiting for the local ACK timeout (transport/recovery.h).
#include <deque>
#include <gtest/gtest.h>
#include <set>

#include "nic/sim/pair.h"
#include "nic/transport/recovery.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using wire::Opcode;
using Statuses = std::vector<Status>;

// A pair with the ACK timeout of most programs, 67 ms. A recovery that waits for it fails
// `EXPECT_EQ(timeouts, 0)`.
struct Recovery : Pair {
	Recovery() : Pair({}, {.timeout = 14}) { fill(from, 1); }

	void send(std::uint32_t length) {
		b.post_receive(1, to.segment(0, length));
		a.post({.segments = {from.segment(0, length)}});
	}
	void expect_arrived(std::uint32_t length) {
		EXPECT_TRUE(settle());
		EXPECT_EQ(statuses(a.sent), Statuses(a.sent.size(), Status::success));
		EXPECT_TRUE(same(to.bytes().first(length), from.bytes().first(length)));
		EXPECT_EQ(fabric.describe(), "");
	}
	std::uint32_t window() const { return a.qp.outlet->window; }
	const transport::Counters& requester() { return host_a.counters(); }

	static constexpr std::uint32_t most = 1 << 20;
	Region& from = host_a.region(most);
	Region& to = host_b.region(most);
};

constexpr bool is_nak(const Fabric::Departure& packet) {
	return packet.opcode == Opcode::rc_acknowledge && packet.syndrome == wire::syndrome::nak_sequence_error;
}

TEST(LossRecovery, ALostNakIsSentAgain) {
	Recovery run;
	int middles = 0, naks = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode == Opcode::rc_send_middle) return ++middles == 3;
		return is_nak(packet) && ++naks == 1;
	};
	run.send(65536);
	run.expect_arrived(65536);
	EXPECT_EQ(naks, 2);
	EXPECT_EQ(run.requester().sequence_naks_received, 1u);
	EXPECT_EQ(run.requester().timeouts, 0u);
}

TEST(LossRecovery, ANakThatCrossesTheRepetitionIsNotActedOnTwice) {
	Recovery run;
	run.send(64);
	run.expect_arrived(64);  // measures the round trip
	int middles = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		return packet.opcode == Opcode::rc_send_middle && ++middles == 3;
	};
	run.send(65536);
	run.expect_arrived(65536);
	EXPECT_EQ(run.requester().retransmissions, 1u);
}

TEST(LossRecovery, ProbesRepeatAtGrowingDistancesAndAreNoRetries) {
	Recovery run;
	std::vector<Nanoseconds> sent_at;
	int acknowledgements = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode == Opcode::rc_send_only) sent_at.push_back(run.fabric.now());
		return packet.opcode == Opcode::rc_acknowledge && ++acknowledgements <= 3;
	};
	run.send(64);
	run.expect_arrived(64);
	ASSERT_EQ(sent_at.size(), 4u);
	EXPECT_GT(sent_at[2] - sent_at[1], (sent_at[1] - sent_at[0]) * 3 / 2);
	EXPECT_GT(sent_at[3] - sent_at[2], (sent_at[2] - sent_at[1]) * 3 / 2);
	EXPECT_EQ(run.requester().probes, 3u);
	EXPECT_EQ(run.requester().timeouts, 0u);
	EXPECT_EQ(run.a.qp.cold->retries_left, 7);
	EXPECT_EQ(run.b.received.size(), 1u);
}

// The probe of a full window waited for room in the window.
TEST(LossRecovery, AProbeOfAFullWindowLeaves) {
	Recovery run;
	std::uint64_t departures = 0;
	run.fabric.loses = [&](const Fabric::Departure&) { return ++departures != 0; };
	run.send(run.most);
	while (run.requester().probes < 2) run.fabric.run_for(100'000);
	EXPECT_EQ(departures, (transport::window_bytes_first >> run.a.qp.mtu_shift) + run.requester().probes);
	EXPECT_EQ(run.requester().timeouts, 0u);
}

TEST(LossRecovery, ALossHalvesTheWindowAndCleanTrafficOpensItAgain) {
	Recovery run;
	int middles = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		return packet.opcode == Opcode::rc_send_middle && ++middles == 20;
	};
	run.send(65536);
	run.expect_arrived(65536);
	const std::uint32_t first = transport::window_bytes_first;
	EXPECT_GE(run.window(), first / 2);
	EXPECT_LT(run.window(), first);
	for (int i = 0; i < 4; ++i) {
		run.send(run.most);
		run.expect_arrived(run.most);
	}
	EXPECT_GT(run.window(), first);
	EXPECT_LE(run.window(), transport::window_bytes_max);
}

TEST(LossRecovery, QueuePairsShareTheWindowOfTheirPath) {
	Recovery run;
	std::deque<Endpoint> more;
	for (int i = 0; i < 7; ++i) {
		Endpoint& a = more.emplace_back(run.host_a);
		connect(a, more.emplace_back(run.host_b), {.timeout = 14});
	}
	run.fabric.loses = [](const Fabric::Departure&) { return true; };
	run.a.post({.opcode = SendOpcode::rdma_write,
		.segments = {run.from.segment(0, run.most)},
		.remote_address = run.to.at(0),
		.rkey = run.to.key()});
	const auto under_way = [](Endpoint& end) { return end.qp.next_psn - end.qp.una; };
	EXPECT_EQ(under_way(run.a), transport::window_bytes_first >> run.a.qp.mtu_shift);
	for (int i = 0; i < 14; i += 2) {
		more[i].post({.opcode = SendOpcode::rdma_write,
			.segments = {run.from.segment(0, run.most)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key()});
		EXPECT_EQ(under_way(more[i]), (transport::window_bytes_first >> run.a.qp.mtu_shift) / (i / 2 + 2));
		run.fabric.run_for(10'000);  // until the ring is empty
	}
	EXPECT_EQ(run.a.qp.outlet->senders, 8u);
	for (int i = 0; i < 14; i += 2) more[i].to_state(transport::QpState::error);
	EXPECT_EQ(run.a.qp.outlet->senders, 1u);
}

// A hundred queue pairs sent two packets each, whatever the peer had room for.
TEST(LossRecovery, NoMoreIsInFlightThanThePeersSocketHasRoomFor) {
	Recovery run;
	transport::Outlet& outlet = *run.a.qp.outlet;
	constexpr std::uint32_t packets = 8;
	outlet.room = packets << run.a.qp.mtu_shift;
	run.fabric.loses = [](const Fabric::Departure&) { return true; };
	std::deque<Endpoint> more;
	const auto write_from = [&](Endpoint& end) {
		end.post({.opcode = SendOpcode::rdma_write,
			.segments = {run.from.segment(0, run.most)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key()});
		run.fabric.run_for(10'000);  // until the ring is empty
		return end.qp.next_psn - end.qp.una;
	};
	EXPECT_EQ(write_from(run.a), packets);
	for (int i = 0; i < 20; ++i) {
		Endpoint& a = more.emplace_back(run.host_a);
		connect(a, more.emplace_back(run.host_b), {.timeout = 14});
		EXPECT_EQ(write_from(a), 1u) << "the room is full";
	}
	EXPECT_EQ(outlet.in_flight, (packets + 20) << run.a.qp.mtu_shift);
}

// The first queue pair's whole window, the second one's half and so on were in flight together.
TEST(LossRecovery, QueuePairsThatBeginOneAfterTheOtherShareTheRoom) {
	Recovery run;
	transport::Outlet& outlet = *run.a.qp.outlet;
	outlet.room = transport::window_bytes_first;
	std::deque<Endpoint> more;
	std::uint32_t most_in_flight = 0;
	run.fabric.loses = [&](const Fabric::Departure&) {
		most_in_flight = std::max(most_in_flight, outlet.in_flight);
		return false;
	};
	for (int i = 0; i < 8; ++i) {
		Endpoint& a = i == 0 ? run.a : more.emplace_back(run.host_a);
		if (i != 0) connect(a, more.emplace_back(run.host_b), {.timeout = 14});
		a.post({.opcode = SendOpcode::rdma_write,
			.segments = {run.from.segment(0, run.most)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key()});
	}
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(outlet.in_flight, 0u);
	EXPECT_EQ(outlet.senders, 0u);
	EXPECT_GE(most_in_flight, outlet.room / 2);
	EXPECT_LE(most_in_flight, outlet.room + (8u << run.a.qp.mtu_shift));
}

// Each of eight timeouts sent half a window again into the socket of a peer that was only late.
TEST(LossRecovery, AfterATimeoutTheWindowIsSmall) {
	Recovery run;
	bool lost = true;
	run.fabric.loses = [&](const Fabric::Departure&) { return lost; };
	run.send(run.most);
	while (run.requester().timeouts == 0) run.fabric.run_for(1'000'000);
	EXPECT_EQ(run.a.qp.next_psn - run.a.qp.una, transport::window_packets_min);
	lost = false;
	run.expect_arrived(run.most);
}

TEST(LossRecovery, ReadResponsesStayWithinTheRoomOfTheOwnSocket) {
	Recovery run;
	run.a.qp.outlet->own_room = 2 * transport::read_part_bytes;
	std::uint32_t asked = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode == Opcode::rc_read_request) asked += transport::read_part_bytes;
		return true;
	};
	run.a.post({.opcode = SendOpcode::rdma_read,
		.segments = {run.from.segment(0, run.most)},
		.remote_address = run.to.at(0),
		.rkey = run.to.key()});
	run.fabric.run_for(10'000);
	EXPECT_EQ((run.a.qp.next_psn - run.a.qp.una) << run.a.qp.mtu_shift, 2 * transport::read_part_bytes);
	EXPECT_LE(asked, 2 * transport::read_part_bytes);
}

// After many losses the window is small, so the requester repeats fewer packets than the peer has
// received. An acknowledgement beyond the repeated packets is valid.
TEST(LossRecovery, AnAcknowledgementBeyondTheRepeatedPacketsIsAccepted) {
	Pair pair({}, {.timeout = 8});
	bool deaf = true;
	pair.fabric.loses = [&](const Fabric::Departure& packet) {
		return deaf && packet.opcode == Opcode::rc_acknowledge;
	};
	Region& from = pair.host_a.region(64);
	Region& to = pair.host_b.region(64);
	for (int i = 0; i < 40; ++i) pair.b.post_receive(i, to.segment(0, 64));
	const std::vector<Work> works(40, {.segments = {from.segment(0, 64)}});
	pair.a.post(works);
	EXPECT_EQ(pair.fabric.run_until([&] { return pair.host_a.counters().timeouts == 5; }), Ended::reached);
	EXPECT_LT(pair.a.qp.next_psn, pair.a.qp.una + 40);
	deaf = false;
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses(40, Status::success));
	EXPECT_EQ(pair.b.received.size(), 40u);
	EXPECT_EQ(pair.host_a.counters().timeouts, 5u);
}

TEST(LossRecovery, ALongReadIsRequestedInPartsAndALossRepeatsTheRestOfOnePart) {
	Recovery run;
	std::vector<std::uint32_t> asked;
	int middles = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode == Opcode::rc_read_request) asked.push_back(packet.psn.value - 0x123456);
		return packet.opcode == Opcode::rc_read_response_middle && ++middles == 70;
	};
	fill(run.to, 2);
	run.a.post({.opcode = SendOpcode::rdma_read,
		.segments = {run.from.segment(0, 262144)},
		.remote_address = run.to.at(0),
		.rkey = run.to.key()});
	run.expect_arrived(262144);
	const std::uint32_t part = transport::read_part_bytes >> run.a.qp.mtu_shift,
						at_once = part * transport::read_parts_at_once;
	const std::set<std::uint32_t> places(asked.begin(), asked.end());
	for (std::uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(places.contains(i * at_once)) << i;
	EXPECT_EQ(std::ranges::count_if(places, [&](std::uint32_t psn) { return psn % part != 0; }), 1)
		<< "from the middle of a part";
	EXPECT_LE(asked.size(), 256u / 16 + 2);
	EXPECT_EQ(run.requester().timeouts, 0u);
}

TEST(LossRecovery, ALostRnrNakDoesNotCostATimeout) {
	Recovery run;
	int naks = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		return packet.opcode == Opcode::rc_acknowledge && wire::syndrome::is_rnr(packet.syndrome) && ++naks == 1;
	};
	run.a.post({.segments = {run.from.segment(0, 64)}});
	run.fabric.run_for(100'000);
	EXPECT_EQ(naks, 1);
	run.b.post_receive(1, run.to.segment(0, 64));
	run.expect_arrived(64);
	EXPECT_EQ(run.requester().timeouts, 0u);
}

}  // namespace
}  // namespace verbena::sim
