// SPDX-License-Identifier: Apache-2.0
// The order in which a send queue executes requests: fences, SQD, memory windows, inline data and
// flushing.
#include <gtest/gtest.h>

#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::Completed;
using queues::SendOpcode;
using queues::Status;
using transport::AsyncEvent;
using transport::QpState;
using Statuses = std::vector<Status>;
using Ids = std::vector<std::uint64_t>;

class SendQueue : public testing::TestWithParam<bool> {
protected:
	FabricOptions link(double drop = 0.1) const {
		return {.seed = 3, .lossless = GetParam(), .faults = {.drop = GetParam() ? 0 : drop}};
	}
};
INSTANTIATE_TEST_SUITE_P(
	, SendQueue, testing::Bool(), [](const auto& info) { return info.param ? "OnALosslessLink" : "OnALossyLink"; });

TEST_P(SendQueue, AFencedSendCarriesTheDataOfTheReadBeforeIt) {
	Pair pair(link());
	Region& remote = pair.host_b.region(1 << 16);
	Region& local = pair.host_a.region(1 << 16);
	Region& received = pair.host_b.region(1 << 16);
	fill(remote, 5);
	pair.b.post_receive(1, received.segment(0, 1 << 16));
	const Work works[] = {
		{.opcode = SendOpcode::rdma_read,
			.wr_id = 1,
			.segments = {local.segment(0, 1 << 16)},
			.remote_address = remote.at(0),
			.rkey = remote.key()},
		{.wr_id = 2, .segments = {local.segment(0, 1 << 16)}, .flags = queues::send_signaled | queues::send_fence},
	};
	pair.a.post(works);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(wr_ids(pair.a.sent), (Ids{1, 2}));
	EXPECT_TRUE(same(received.bytes(), remote.bytes()));
}

TEST_P(SendQueue, InlineDataIsTakenWhenItIsPosted) {
	Pair pair(link());
	Region& received = pair.host_b.region(64);
	pair.b.post_receive(1, received.segment(0, 64));
	std::vector<std::byte> data(40, std::byte{7});
	pair.a.post({.inline_data = data});
	EXPECT_TRUE(pair.settle());
	EXPECT_TRUE(same(received.bytes().first(40), data));
}

TEST_P(SendQueue, OnlySignaledRequestsCompleteUnlessTheQueueSignalsAll) {
	for (const bool all : {false, true}) {
		Pair pair(link(), {}, {.signal_all = all});
		Region& remote = pair.host_b.region(64);
		Region& local = pair.host_a.region(64);
		for (std::uint64_t i = 0; i < 10; ++i)
			pair.a.post({.opcode = SendOpcode::rdma_write,
				.wr_id = i,
				.segments = {local.segment(0, 64)},
				.flags = static_cast<std::uint8_t>(i % 5 == 4 ? queues::send_signaled : 0),
				.remote_address = remote.at(0),
				.rkey = remote.key()});
		EXPECT_TRUE(pair.settle());
		if (all) EXPECT_EQ(pair.a.sent.size(), 10u);
		else EXPECT_EQ(wr_ids(pair.a.sent), (Ids{4, 9}));
	}
}

// IBA 10.3.1, SQD: messages that have begun are completed; those behind them wait for RTS.
TEST_P(SendQueue, SqdCompletesStartedMessagesAndRaisesOneEvent) {
	const std::vector<Nanoseconds> moments = GetParam() ? std::vector<Nanoseconds>{1'000, 6'000, 11'000}
														: std::vector<Nanoseconds>{1'000, 20'000, 60'000, 200'000};
	for (const Nanoseconds moment : moments) {
		Pair pair(link(), {.path_mtu = 1, .timeout = 7});
		constexpr std::uint32_t size = 40'000;
		Region& local = pair.host_a.region(size);
		Region& remote = pair.host_b.region(size);
		fill(local, 1);
		for (std::uint64_t i = 0; i < 20; ++i)
			pair.a.post({.opcode = SendOpcode::rdma_write,
				.wr_id = i,
				.segments = {local.segment(0, size)},
				.remote_address = remote.at(0),
				.rkey = remote.key()});
		pair.fabric.run_for(moment);
		pair.a.poll();
		const std::size_t before = pair.a.sent.size();
		ASSERT_TRUE(pair.a.modify(
			{.mask = transport::qp_state | transport::qp_sqd_notify, .state = QpState::sqd, .sqd_notify = true}));
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(pair.host_a.raised(AsyncEvent::sq_drained), 1) << "at " << moment;
		EXPECT_TRUE(pair.a.qp.una == pair.a.qp.next_psn && pair.a.qp.message_offset == 0);
		EXPECT_GE(pair.a.sent.size(), before);
		EXPECT_EQ(pair.a.sent.size(), pair.a.qp.sq_next) << "every message that had begun has completed";

		const std::size_t drained = pair.a.sent.size();
		EXPECT_LT(drained, 20u);
		pair.a.post({.opcode = SendOpcode::rdma_write,
			.wr_id = 20,
			.segments = {local.segment(0, 64)},
			.remote_address = remote.at(0),
			.rkey = remote.key()});
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(pair.a.sent.size(), drained) << "nothing leaves a drained queue";

		ASSERT_TRUE(pair.a.to_state(QpState::rts));
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(statuses(pair.a.sent), Statuses(21, Status::success));
		EXPECT_TRUE(same(local.bytes(), remote.bytes()));
	}
}

TEST_P(SendQueue, SqdWhileTheReceiverIsNotReadyStillFinishesTheMessage) {
	Pair pair(link(0), {.min_rnr_timer = 14});
	Region& local = pair.host_a.region(4096);
	Region& remote = pair.host_b.region(4096);
	fill(local, 1);
	pair.a.post({.wr_id = 1, .segments = {local.segment(0, 4096)}});
	pair.fabric.run_for(200'000);  // into the RNR pause
	ASSERT_TRUE(pair.a.modify(
		{.mask = transport::qp_state | transport::qp_sqd_notify, .state = QpState::sqd, .sqd_notify = true}));
	EXPECT_EQ(pair.host_a.raised(AsyncEvent::sq_drained), 0);
	pair.b.post_receive(1, remote.segment(0, 4096));
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.host_a.raised(AsyncEvent::sq_drained), 1);
	EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::success});
	EXPECT_TRUE(same(local.bytes(), remote.bytes()));
}

TEST_P(SendQueue, AnEmptyQueueIsDrainedAtOnce) {
	Pair pair(link());
	ASSERT_TRUE(pair.a.modify(
		{.mask = transport::qp_state | transport::qp_sqd_notify, .state = QpState::sqd, .sqd_notify = true}));
	EXPECT_EQ(pair.host_a.raised(AsyncEvent::sq_drained), 1);
}

TEST_P(SendQueue, TheErrorStateFlushesBothQueuesInOrder) {
	Pair pair(link());
	Region& local = pair.host_a.region(64);
	for (std::uint64_t i = 0; i < 5; ++i) {
		// The peer has no receive posted.
		pair.a.post({.wr_id = i, .segments = {local.segment(0, 64)}, .flags = 0});
		pair.a.post_receive(100 + i, local.segment(0, 64));
	}
	ASSERT_TRUE(pair.a.to_state(QpState::error));
	pair.a.post({.wr_id = 5, .segments = {local.segment(0, 64)}});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(wr_ids(pair.a.sent), (Ids{0, 1, 2, 3, 4, 5}));
	EXPECT_EQ(statuses(pair.a.sent), Statuses(6, Status::flushed));
	EXPECT_EQ(wr_ids(pair.a.received), (Ids{100, 101, 102, 103, 104}));
	EXPECT_EQ(statuses(pair.a.received), Statuses(5, Status::flushed));
}

TEST_P(SendQueue, AQueuePairThatWasResetWorksAgainFromNewPsns) {
	Pair pair(link());
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192);
	for (int round = 0; round < 3; ++round) {
		SCOPED_TRACE(round);
		fill(local, round + 1);
		pair.b.post_receive(round, remote.segment(0, 8192));
		pair.a.post({.segments = {local.segment(0, 8192)}});
		EXPECT_TRUE(pair.settle());
		EXPECT_TRUE(same(local.bytes(), remote.bytes()));
		// The peer has no receive posted, so this request is in flight when the reset comes.
		pair.a.post({.segments = {local.segment(0, 8192)}});
		pair.fabric.run_for(10'000);
		ASSERT_TRUE(pair.a.to_state(QpState::reset) && pair.b.to_state(QpState::reset));
		EXPECT_TRUE(pair.settle());
		connect(pair.a, pair.b, {.psn_a = 0x800000u * (round + 1), .psn_b = 77});
	}
	EXPECT_EQ(statuses(pair.a.sent), Statuses(3, Status::success)) << "a reset completes nothing";
	EXPECT_EQ(pair.fabric.describe(), "");
}

// Memory windows of type 2.
struct Window {
	explicit Window(Pair& pair)
		: key(pair.host_b.adapter.context().keys.allocate_window(1)), region(pair.host_b.region(8192)) {}
	Work bind(std::uint64_t wr_id, std::uint32_t offset, std::uint32_t length) {
		Work work{.opcode = SendOpcode::bind_window, .wr_id = wr_id};
		work.bind = {.window_key = key,
			.new_key = key ^ 1,
			.region_key = region.key(),
			.address = region.at(offset),
			.length = length,
			.access = memory::remote_write};
		key ^= 1;
		return work;
	}
	std::uint32_t key;
	Region& region;
};

TEST_P(SendQueue, ABoundWindowCanBeWrittenAndAnInvalidatedOneCannot) {
	Pair pair(link());
	Window window(pair);
	Region& local = pair.host_a.region(64);
	fill(local, 1);
	pair.b.post(window.bind(1, 1000, 64));
	EXPECT_TRUE(pair.settle());
	ASSERT_EQ(statuses(pair.b.sent), Statuses{Status::success});
	EXPECT_EQ(pair.b.sent[0].opcode, Completed::bind_window);

	const Work write{.opcode = SendOpcode::rdma_write,
		.segments = {local.segment(0, 64)},
		.remote_address = window.region.at(1000),
		.rkey = window.key};
	pair.a.post(write);
	EXPECT_TRUE(pair.settle());
	EXPECT_TRUE(same(window.region.bytes().subspan(1000, 64), local.bytes()));

	pair.b.post({.opcode = SendOpcode::local_invalidate, .wr_id = 2, .immediate = window.key});
	pair.a.post(write);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.b.sent), (Statuses{Status::success, Status::success}));
	EXPECT_EQ(statuses(pair.a.sent), (Statuses{Status::success, Status::remote_access}));
}

TEST_P(SendQueue, ASendWithInvalidateInvalidatesTheWindowAndReportsItsKey) {
	Pair pair(link());
	Window window(pair);
	Region& local = pair.host_a.region(64);
	pair.b.post(window.bind(1, 0, 4096));
	EXPECT_TRUE(pair.settle());
	pair.b.post_receive(5, window.region.segment(4096, 64));
	pair.a.post({.opcode = SendOpcode::send_invalidate, .segments = {local.segment(0, 64)}, .immediate = window.key});
	EXPECT_TRUE(pair.settle());
	ASSERT_EQ(pair.b.received.size(), 1u);
	EXPECT_EQ(pair.b.received[0].flags, queues::completion_with_invalidate);
	EXPECT_EQ(pair.b.received[0].immediate, window.key);
	pair.a.post({.opcode = SendOpcode::rdma_write,
		.segments = {local.segment(0, 64)},
		.remote_address = window.region.at(0),
		.rkey = window.key});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.a.sent.back().status, Status::remote_access);
}

// The request before the failed one is sent again after the failure was found. That must not turn
// the failure into a success.
TEST_P(SendQueue, AFailedLocalOperationStaysFailedWhenRequestsBeforeItAreRepeated) {
	Pair pair(link(0), {.min_rnr_timer = 5});
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64);
	const Work works[] = {
		{.wr_id = 1, .segments = {local.segment(0, 64)}},
		{.opcode = SendOpcode::local_invalidate, .wr_id = 2, .immediate = 0x12345678},
		{.wr_id = 3, .segments = {local.segment(0, 64)}},
	};
	pair.a.post(works);
	pair.fabric.run_for(30'000);
	pair.b.post_receive(1, remote.segment(0, 64));
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(wr_ids(pair.a.sent), (Ids{1, 2, 3}));
	EXPECT_EQ(statuses(pair.a.sent), (Statuses{Status::success, Status::local_qp_operation, Status::flushed}));
}

TEST_P(SendQueue, TwoQueuePairsShareOneReceiveQueueInPostingOrder) {
	Fabric fabric(link(0.05));
	Host& one = fabric.add_host();
	Host& other = fabric.add_host();
	queues::ReceiveQueue shared(64, 4);
	shared.shared = true;
	shared.limit = 3;
	Endpoint a1(one), a2(one), b1(other, {.shared_receive_queue = &shared}),
		b2(other, {.shared_receive_queue = &shared});
	connect(a1, b1, {.path_mtu = 1});
	connect(a2, b2, {.path_mtu = 1});
	Region& local = one.region(2000);
	Region& remote = other.region(20 * 2000);
	fill(local, 1);
	for (std::uint32_t i = 0; i < 20; ++i) b1.post_receive(i, remote.segment(i * 2000, 2000));
	for (std::uint64_t i = 0; i < 9; ++i) {
		a1.post({.wr_id = i, .segments = {local.segment(0, 2000)}});
		a2.post({.wr_id = i, .segments = {local.segment(0, 2000)}});
	}
	EXPECT_TRUE(fabric.settle());
	b1.poll();
	b2.poll();
	ASSERT_EQ(b1.received.size(), 9u);
	ASSERT_EQ(b2.received.size(), 9u);
	Ids used = wr_ids(b1.received);
	for (const std::uint64_t id : wr_ids(b2.received)) used.push_back(id);
	std::ranges::sort(used);
	for (std::uint64_t i = 0; i < 18; ++i) {
		EXPECT_EQ(used[i], i);
		EXPECT_TRUE(same(remote.bytes().subspan(i * 2000, 2000), local.bytes()));
	}
	EXPECT_EQ(other.raised(AsyncEvent::srq_limit_reached), 1);
	ASSERT_TRUE(b1.to_state(QpState::error));
	EXPECT_EQ(other.raised(AsyncEvent::last_wqe_reached), 1);
	EXPECT_EQ(shared.posted(), 2u) << "a shared queue is not flushed";
}

}  // namespace
}  // namespace verbena::sim
