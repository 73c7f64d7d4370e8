// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in.h"

#include <gtest/gtest.h>

#include "bench/rcud/requests.h"

namespace verbena::rcud {
namespace {

const Cell many{.window_mode = WindowMode::credit, .msg = 64, .window = 64, .qps = 100, .senders = 4};

std::string refusal(const Cell& cell, const Limits& limits = {}) {
	const auto shape = fan_in_shape_of(cell, {}, limits);
	return shape ? "" : shape.error();
}

TEST(FanIn, BothTransportsHaveTheSameReceives) {
	Cell datagrams = many;
	datagrams.mode = Mode::ud;
	EXPECT_EQ(fan_in_shape_of(many, {}, {})->receive_depth, fan_in_shape_of(datagrams, {}, {})->receive_depth);
}

TEST(FanIn, EachQueuePairHasItsTurnSoRequestsAreNoLists) {
	const auto shape = fan_in_shape_of(many, {.post_list = 8}, {});
	ASSERT_TRUE(shape);
	EXPECT_EQ(shape->post_list, 1u);
	EXPECT_EQ(shape->signal_every, 1u);
	EXPECT_EQ(shape->credit_every, window_of_sender(many) / 4);
}

TEST(FanIn, TheWindowsOfSendersAndQueuePairsAreNoMoreThanTheCells) {
	EXPECT_EQ(window_of_sender(many), 16u);
	EXPECT_EQ(window_of_queue_pair(many), 1u);
	Cell few = many;
	few.qps = 3;
	EXPECT_EQ(window_of_queue_pair(few), 22u);
}

TEST(FanIn, TheSharesOfTheSendersAreTheWholeRun) {
	for (const std::uint64_t total : {1u, 4u, 7u, 100u}) {
		std::uint64_t sum = 0;
		for (std::uint32_t sender = 0; sender < 4; ++sender) sum += share_of(total, 4, sender);
		EXPECT_EQ(sum, total);
	}
	EXPECT_EQ(share_of(5, 4, 0), 2u);
	EXPECT_EQ(share_of(5, 4, 1), 1u);
}

TEST(FanIn, MoreQueuePairsThanTheDeviceHasAreNotApplicable) {
	EXPECT_EQ(refusal(many, {.qps_max = 99}), "100 queue pairs > 99, what the device has");
	EXPECT_EQ(refusal(many, {.qps_max = 100}), "");
}

TEST(FanIn, BuffersThatDoNotFitIntoMemoryAreNotApplicable) {
	Cell large = many;
	large.mode = Mode::rc;
	large.qps = 8192;
	large.msg = 1u << 20;
	EXPECT_EQ(refusal(large), "the buffers of 8192 queue pairs need 8 GiB, more than 4");
	large.msg = 512u << 10;
	EXPECT_EQ(refusal(large), "");
	large.msg += 1;  // another cache line
	EXPECT_NE(refusal(large), "");
}

TEST(FanIn, AServerRefusesNumbersThatContradictEachOther) {
	const auto shape = fan_in_shape_of(many, {}, {});
	ASSERT_TRUE(shape);
	EXPECT_NO_THROW(check_request(many, *shape));
	for (const auto& change : std::initializer_list<void (*)(Cell&)>{[](Cell& cell) { cell.senders = 0; },
			 [](Cell& cell) { cell.senders = 3; }, [](Cell& cell) { cell.senders = 100; },
			 [](Cell& cell) { cell.qps = 1u << 30; }, [](Cell& cell) { cell.op = Op::write; },
			 [](Cell& cell) { cell.mode = Mode::ud_segmented; }, [](Cell& cell) { cell.window = 1; }}) {
		Cell cell = many;
		change(cell);
		EXPECT_THROW(check_request(cell, *shape), Failure);
	}
}

TEST(FanIn, NumbersOfQueuePairsComeInSeveralMessages) {
	std::vector<bench::Message> messages{
		{{"type", "qpns"}, {"list", {1, 2}}}, {{"type", "qpns"}, {"list", {3}}}, {{"type", "qpns"}, {"list", {4, 5}}}};
	auto next = messages.begin();
	EXPECT_EQ(receive_qpns(3, [&] { return *next++; }), (std::vector<std::uint32_t>{1, 2, 3}));
	EXPECT_THROW(receive_qpns(1, [&] { return *next; }), PeerLost) << "more numbers than queue pairs";
	EXPECT_THROW(receive_qpns(1, [] { return bench::Message{{"type", "qpns"}}; }), PeerLost);
	EXPECT_THROW(receive_qpns(1, [] { return bench::Message{{"type", "close"}}; }), PeerLost);
}

}  // namespace
}  // namespace verbena::rcud
