// SPDX-License-Identifier: Apache-2.0
// Reliable connections: random traffic under faults, every size at every path MTU, and recovery
// from each kind of lost packet.
#include <gtest/gtest.h>
#include <set>

#include "nic/sim/conversation.h"
#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using transport::QpState;
using wire::Opcode;
using Statuses = std::vector<Status>;
using Ids = std::vector<std::uint64_t>;

constexpr Faults everything{.drop = 0.05, .duplicate = 0.05, .reorder = 0.05, .corrupt = 0.03, .jitter = 2'000};

TEST(ReliableConnection, SendsArriveOnceAndInOrderWhenFivePercentOfPacketsAreLostBothWays) {
	const Outcome outcome = converse(
		{.traffic = {.operations = 500, .writes = 0, .reads = 0, .atomics = 0}, .faults = {.drop = 0.05}, .seed = 1});
	EXPECT_TRUE(outcome.good) << outcome.report;
	EXPECT_GT(outcome.statistics.dropped, 50u);
	EXPECT_GT(outcome.counters.sequence_naks_received, 10u);
	EXPECT_GT(outcome.counters.probes, 0u);
}

TEST(ReliableConnection, EveryOperationSurvivesLossDuplicationReorderingAndDamage) {
	const Outcome outcome =
		converse({.traffic = {.operations = 1000}, .faults = everything, .batch = 3'000, .seed = 2});
	EXPECT_TRUE(outcome.good) << outcome.report;
	EXPECT_GT(outcome.statistics.refused[static_cast<int>(wire::DropReason::wrong_icrc)], 50u);
	EXPECT_GT(outcome.counters.duplicates, 50u);
}

TEST(ReliableConnection, EveryOperationWorksOnALinkThatLosesNothing) {
	const Outcome outcome =
		converse({.traffic = {.operations = 1000, .size_max = 65536}, .lossless = true, .connections = 3, .seed = 3});
	EXPECT_TRUE(outcome.good) << outcome.report;
	EXPECT_EQ(outcome.counters.duplicates, 0u);
	EXPECT_GT(outcome.statistics.ring_full, 0u) << "the ring should have been full now and then";
}

TEST(ReliableConnection, AReceiverThatPostsLateIsWaitedForOnBothLinks) {
	for (const bool lossless : {false, true}) {
		const Outcome outcome = converse({.traffic = {.operations = 300, .reads = 1, .late_receive = 0.5},
			.faults = {.drop = lossless ? 0 : 0.05},
			.lossless = lossless,
			.receive_entries = 2,
			.seed = 4});
		EXPECT_TRUE(outcome.good) << outcome.report;
		EXPECT_GT(outcome.counters.rnr_naks_received, 10u);
	}
}

TEST(ReliableConnection, TheSameSeedIsTheSameRun) {
	const ConversationOptions options = drawn(77, everything, false);
	const Outcome first = converse(options), second = converse(options);
	EXPECT_EQ(first.took, second.took);
	EXPECT_EQ(first.statistics.events, second.statistics.events);
	EXPECT_EQ(first.statistics.packets, second.statistics.packets);
}

TEST(ReliableConnection, HundredsOfRandomRunsOnALossyFabricAreGood) {
	for (std::uint64_t seed = 1; seed <= 300; ++seed) {
		const Outcome outcome = converse(drawn(seed, everything, false));
		ASSERT_TRUE(outcome.good) << "seed " << seed << "\n" << outcome.report;
	}
}

// During an RNR pause, late acknowledgements can advance the queue, so that nothing is left to send
// when the pause ends. A timer must run nevertheless.
TEST(ReliableConnection, SeedsThatStalledOnceDoNotStall) {
	for (const std::uint64_t seed : {486, 623}) {
		const Outcome outcome =
			converse(drawn(seed, {.drop = 0.05, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.02}, false));
		EXPECT_TRUE(outcome.good) << "seed " << seed << "\n" << outcome.report;
	}
}

TEST(ReliableConnection, HundredsOfRandomRunsOnALosslessLinkAreGood) {
	for (std::uint64_t seed = 1; seed <= 300; ++seed) {
		const Outcome outcome = converse(drawn(seed, {}, true));
		ASSERT_TRUE(outcome.good) << "seed " << seed << "\n" << outcome.report;
	}
}

// One message of each size as SEND, WRITE and READ.
void transfer_every_size(bool lossless, std::uint8_t path_mtu) {
	const std::uint32_t mtu = 128u << path_mtu;
	Pair pair(
		{.seed = path_mtu, .lossless = lossless, .faults = {.drop = lossless ? 0 : 0.05}}, {.path_mtu = path_mtu});
	constexpr std::uint32_t most = 1 << 20;
	Region& source = pair.host_a.region(most);
	Region& target = pair.host_b.region(most);
	Region& back = pair.host_a.region(most);
	std::set<std::uint32_t> sizes{
		0, 1, 40, 41, mtu - 1, mtu, mtu + 1, 2 * mtu, 8191, 8192, 8193, 65536, most - 1, most};
	unsigned seed = 0;
	for (const std::uint32_t size : sizes) {
		SCOPED_TRACE(testing::Message() << "size " << size << ", path MTU " << mtu);
		for (const SendOpcode opcode : {SendOpcode::send, SendOpcode::rdma_write}) {
			fill(source, ++seed);
			std::ranges::fill(target.bytes(), poison);
			pair.b.post_receive(seed, target.segment(0, most));
			ASSERT_TRUE(pair.a.post({.opcode = opcode,
				.segments = {source.segment(0, size)},
				.remote_address = target.at(0),
				.rkey = target.key()}));
			ASSERT_TRUE(pair.settle());
			ASSERT_EQ(pair.a.sent.back().status, Status::success);
			EXPECT_TRUE(same(target.bytes().first(size), source.bytes().first(size)));
			EXPECT_TRUE(untouched(target.bytes().subspan(size)));
		}
		ASSERT_TRUE(pair.a.post({.opcode = SendOpcode::rdma_read,
			.segments = {back.segment(0, size)},
			.remote_address = target.at(0),
			.rkey = target.key()}));
		ASSERT_TRUE(pair.settle());
		EXPECT_TRUE(same(back.bytes().first(size), target.bytes().first(size)));
	}
	EXPECT_EQ(statuses(pair.a.sent), Statuses(3 * sizes.size(), Status::success));
	EXPECT_EQ(pair.b.received.size(), sizes.size());
	EXPECT_TRUE(pair.host_a.guards_are_intact() && pair.host_b.guards_are_intact());
	EXPECT_EQ(pair.fabric.describe(), "");
}

class PathMtu : public testing::TestWithParam<std::uint8_t> {};
TEST_P(PathMtu, EverySizeUpToAMebibyteArrivesAtFivePercentLoss) { transfer_every_size(false, GetParam()); }
TEST_P(PathMtu, EverySizeUpToAMebibyteArrivesOnALosslessLink) { transfer_every_size(true, GetParam()); }
INSTANTIATE_TEST_SUITE_P(ReliableConnection, PathMtu, testing::Values(1, 2, 3, 4, 5));

TEST(ReliableConnection, PsnsWrapAroundOnBothLinks) {
	for (const bool lossless : {false, true}) {
		const Outcome outcome = converse({.traffic = {.operations = 300},
			.faults = {.drop = lossless ? 0 : 0.05},
			.connection = {.path_mtu = 1, .psn_a = 0xffffc0, .psn_b = 0xfffff8},
			.lossless = lossless,
			.seed = 5});
		EXPECT_TRUE(outcome.good) << outcome.report;
	}
}

// A pair that loses one packet: the `which`-th packet with the given opcode.
struct Single : Pair {
	explicit Single(Opcode opcode, int which = 1) : Pair({}, {.timeout = 10}) {
		fabric.loses = [this, opcode, left = which](const Fabric::Departure& packet) mutable {
			const bool hit = packet.opcode == opcode && --left == 0;
			lost_any |= hit;
			return hit;
		};
	}
	bool lost_any = false;
	Region& from = host_a.region(8192);
	Region& to = host_b.region(8192);
	static constexpr Nanoseconds timeout = 4096 << 10;
};

TEST(LostPacket, AMissingMiddlePacketIsRetransmittedWithoutATimeout) {
	Single run(Opcode::rc_send_middle, 2);
	fill(run.from, 1);
	run.b.post_receive(1, run.to.segment(0, 8192));
	const Nanoseconds began = run.fabric.now();
	run.a.post({.segments = {run.from.segment(0, 8192)}});
	EXPECT_EQ(run.fabric.run_until([&] { return run.a.send_cq.empty() == false; }), Ended::reached);
	EXPECT_LT(run.fabric.now() - began, Single::timeout);
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
	EXPECT_EQ(run.host_a.counters().sequence_naks_received, 1u);
	EXPECT_EQ(run.host_a.counters().timeouts, 0u);
}

TEST(LostPacket, AMissingLastIsSentAgainByAProbeLongBeforeTheTimeout) {
	Single run(Opcode::rc_send_last);
	fill(run.from, 1);
	run.b.post_receive(1, run.to.segment(0, 8192));
	run.a.post({.segments = {run.from.segment(0, 8192)}});
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
	EXPECT_EQ(run.host_a.counters().probes, 1u);
	EXPECT_EQ(run.host_a.counters().timeouts, 0u);
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::success});
}

TEST(LostPacket, ASendWhoseAcknowledgementWasLostIsNotReceivedTwice) {
	Single run(Opcode::rc_acknowledge);
	for (int i = 0; i < 3; ++i) run.b.post_receive(i, run.to.segment(0, 64));
	run.a.post({.segments = {run.from.segment(0, 64)}});
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::success});
	EXPECT_EQ(run.b.received.size(), 1u);
	EXPECT_EQ(run.host_b.counters().duplicates, 1u);
}

TEST(LostPacket, AnAtomicWhoseResponseWasLostIsAnsweredFromItsSavedResult) {
	for (const SendOpcode opcode : {SendOpcode::fetch_add, SendOpcode::compare_swap}) {
		Single run(Opcode::rc_atomic_acknowledge, 2);
		std::ranges::fill(run.to.bytes(), std::byte{0});
		auto* counter = reinterpret_cast<std::uint64_t*>(run.to.bytes().data());
		auto* result = reinterpret_cast<std::uint64_t*>(run.from.bytes().data());
		*counter = 100;
		Work work{.opcode = SendOpcode::fetch_add,
			.segments = {run.from.segment(0, 8)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key(),
			.compare_or_add = 1};
		run.a.post(work);
		EXPECT_TRUE(run.settle());
		work.opcode = opcode;
		work.compare_or_add = 101;
		work.swap = 202;
		run.a.post(work);
		EXPECT_TRUE(run.settle() && run.lost_any);
		EXPECT_EQ(*result, 101u);
		EXPECT_EQ(*counter, 202u);
		EXPECT_EQ(run.host_b.counters().duplicates, 1u);
		EXPECT_EQ(statuses(run.a.sent), (Statuses{Status::success, Status::success}));
	}
}

TEST(LostPacket, AReadContinuesWhereItsResponseWasInterrupted) {
	Single run(Opcode::rc_read_response_middle, 3);
	fill(run.to, 1);
	std::set<std::uint32_t> requested;
	run.fabric.loses = [lost = run.fabric.loses, &requested](const Fabric::Departure& packet) mutable {
		if (packet.opcode == Opcode::rc_read_request) requested.insert(packet.psn.value);
		return lost(packet);
	};
	run.a.post({.opcode = SendOpcode::rdma_read,
		.segments = {run.from.segment(0, 8192)},
		.remote_address = run.to.at(0),
		.rkey = run.to.key()});
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
	EXPECT_EQ(requested, (std::set<std::uint32_t>{0x123456, 0x123456 + 3})) << "FIRST and two MIDDLEs had arrived";
	EXPECT_EQ(run.host_a.counters().timeouts, 0u) << "the packet behind the gap reveals the loss";
}

TEST(LostPacket, AnAcknowledgementBehindALostReadResponseDoesNotCompleteTheRead) {
	Single run(Opcode::rc_read_response_only);
	fill(run.to, 1);
	run.b.post_receive(1, run.to.segment(4096, 64));
	const Work works[] = {
		{.opcode = SendOpcode::rdma_read,
			.wr_id = 1,
			.segments = {run.from.segment(0, 64)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key()},
		{.wr_id = 2, .segments = {run.from.segment(4096, 64)}},
	};
	run.a.post(works);
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_EQ(wr_ids(run.a.sent), (Ids{1, 2}));
	EXPECT_TRUE(same(run.from.bytes().first(64), run.to.bytes().first(64)));
	EXPECT_EQ(run.b.received.size(), 1u);
}

// An RNR NAK also acknowledges every request before it (IBA 9.7.5). If the response of a READ among
// them was lost, the requester repeats the READ at once.
TEST(LostPacket, AnRnrNakBehindALostReadResponseDoesNotStopTheRequester) {
	Single run(Opcode::rc_read_response_only);
	fill(run.to, 1);
	const Work works[] = {
		{.opcode = SendOpcode::rdma_read,
			.wr_id = 1,
			.segments = {run.from.segment(0, 64)},
			.remote_address = run.to.at(0),
			.rkey = run.to.key()},
		{.wr_id = 2, .segments = {run.from.segment(4096, 64)}},
	};
	run.a.post(works);
	run.fabric.run_for(100'000);
	run.b.post_receive(1, run.to.segment(4096, 64));
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_EQ(wr_ids(run.a.sent), (Ids{1, 2}));
	EXPECT_GT(run.host_a.counters().rnr_naks_received, 0u);
}

TEST(LostPacket, ALostNakIsMadeUpForByTheTimer) {
	Single run(Opcode::rc_send_middle, 2);
	run.fabric.loses = [lost = run.fabric.loses](const Fabric::Departure& packet) mutable {
		return lost(packet) ||
			(packet.opcode == Opcode::rc_acknowledge && packet.syndrome == wire::syndrome::nak_sequence_error);
	};
	fill(run.from, 1);
	run.b.post_receive(1, run.to.segment(0, 8192));
	run.a.post({.segments = {run.from.segment(0, 8192)}});
	EXPECT_TRUE(run.settle() && run.lost_any);
	EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
	EXPECT_EQ(run.host_a.counters().sequence_naks_received, 0u);
	EXPECT_GT(run.host_a.counters().timeouts, 0u);
}

// A requester with a full window that gets an RNR NAK must be able to send after the pause.
TEST(ReliableConnection, AFullWindowOpensAgainAfterAnRnrPause) {
	Pair pair({}, {.path_mtu = 1, .min_rnr_timer = 14});
	Region& from = pair.host_a.region(1 << 16);
	Region& to = pair.host_b.region(1 << 16);
	fill(from, 1);
	pair.a.post({.segments = {from.segment(0, 1 << 16)}});
	pair.fabric.run_for(200'000);
	pair.b.post_receive(1, to.segment(0, 1 << 16));
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::success});
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

TEST(ReliableConnection, DoubledReadRequestsDoNotExceedTheRespondersLimit) {
	const Outcome outcome =
		converse({.traffic = {.operations = 500, .size_max = 16384, .sends = 1, .writes = 0, .reads = 6, .atomics = 3},
			.faults = {.drop = 0.02, .duplicate = 0.5, .jitter = 20'000},
			.connection = {.rd_atomic = 1},
			.batch = 20'000,
			.seed = 6});
	EXPECT_TRUE(outcome.good) << outcome.report;
}

}  // namespace
}  // namespace verbena::sim
