// SPDX-License-Identifier: Apache-2.0
#include "nic/queues/completion_queue.h"

#include <gtest/gtest.h>
#include <vector>

namespace verbena::queues {
namespace {

using Pushed = CompletionQueue::Pushed;
using Ids = std::vector<std::uint64_t>;

Completion completion(std::uint64_t id, std::uint32_t qpn = 1) { return {.wr_id = id, .qpn = qpn}; }

Ids drain(CompletionQueue& cq, int count = 1000) {
	Ids ids;
	const int taken = cq.drain(count, [&](const Completion& c, int index) {
		EXPECT_EQ(index, static_cast<int>(ids.size()));
		ids.push_back(c.wr_id);
	});
	EXPECT_EQ(taken, static_cast<int>(ids.size()));
	return ids;
}

TEST(CompletionQueue, GivesCompletionsInOrderAcrossTheWrap) {
	CompletionQueue cq(4);
	std::uint64_t pushed = 0, taken = 0;
	for (int round = 0; round < 10; ++round) {
		for (int i = 0; i < 3; ++i) EXPECT_EQ(cq.push(completion(pushed++), false), Pushed::quietly);
		for (const std::uint64_t id : drain(cq, 3)) EXPECT_EQ(id, taken++);
	}
	EXPECT_EQ(taken, pushed);
	EXPECT_TRUE(cq.empty());
}

TEST(CompletionQueue, DrainTakesAtMostWhatIsAskedFor) {
	CompletionQueue cq(4);
	for (std::uint64_t i = 0; i < 3; ++i) cq.push(completion(i), false);
	EXPECT_EQ(drain(cq, 2), (Ids{0, 1}));
	EXPECT_EQ(drain(cq, 2), (Ids{2}));
	EXPECT_EQ(drain(cq, 2), Ids{});
}

TEST(CompletionQueue, ItsCapacityIsAPowerOfTwoThatHoldsWhatWasAskedFor) {
	EXPECT_EQ(CompletionQueue(1).capacity(), 1u);
	EXPECT_EQ(CompletionQueue(5).capacity(), 8u);
	EXPECT_EQ(CompletionQueue(64).capacity(), 64u);
}

TEST(CompletionQueue, AnOverflowLosesTheNewestAndIsReportedOnce) {
	CompletionQueue cq(2);
	cq.push(completion(0), false);
	cq.push(completion(1), false);
	EXPECT_EQ(cq.push(completion(2), false), Pushed::overran);
	EXPECT_EQ(cq.push(completion(3), false), Pushed::quietly);
	EXPECT_EQ(drain(cq), (Ids{0, 1}));
}

TEST(CompletionQueue, ARequestArmsForOneEvent) {
	CompletionQueue cq(8);
	EXPECT_EQ(cq.push(completion(0), true), Pushed::quietly);
	drain(cq);
	EXPECT_FALSE(cq.arm(Armed::next));
	EXPECT_EQ(cq.push(completion(1), false), Pushed::raise_event);
	EXPECT_EQ(cq.push(completion(2), true), Pushed::quietly);
}

TEST(CompletionQueue, ASolicitedRequestWaitsForASolicitedCompletion) {
	CompletionQueue cq(8);
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
	EXPECT_EQ(cq.push(completion(0), false), Pushed::quietly);
	EXPECT_EQ(cq.push(completion(1), true), Pushed::raise_event);
}

TEST(CompletionQueue, TheWiderOfTwoRequestsHolds) {
	CompletionQueue cq(8);
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
	EXPECT_FALSE(cq.arm(Armed::next));
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
	EXPECT_EQ(cq.push(completion(0), false), Pushed::raise_event);
}

TEST(CompletionQueue, ARequestOfAQueueThatIsNotEmptyRaisesItsEventAtOnceAndIsUsedUp) {
	CompletionQueue cq(8);
	cq.push(completion(0), false);
	EXPECT_TRUE(cq.arm(Armed::next));
	EXPECT_EQ(cq.push(completion(1), true), Pushed::quietly) << "one request, one event";
	EXPECT_TRUE(cq.arm(Armed::next)) << "no event has reported the second";
	drain(cq);
	EXPECT_FALSE(cq.arm(Armed::next));
	EXPECT_EQ(cq.push(completion(2), false), Pushed::raise_event);
}

TEST(CompletionQueue, ACompletionIsReportedByOneEvent) {
	CompletionQueue cq(8);
	EXPECT_FALSE(cq.arm(Armed::next));
	EXPECT_EQ(cq.push(completion(0), true), Pushed::raise_event);
	EXPECT_FALSE(cq.arm(Armed::next)) << "its event has reported it";
	EXPECT_EQ(cq.push(completion(1), false), Pushed::raise_event);
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
	EXPECT_FALSE(cq.arm(Armed::next));
	cq.push(completion(2), false);
	drain(cq, 2);
	EXPECT_FALSE(cq.arm(Armed::next)) << "the third was reported as well";
	drain(cq);
}

TEST(CompletionQueue, WhichCompletionsWereReportedIsKnownAfterOthersWereRemoved) {
	CompletionQueue cq(8);
	cq.push(completion(0, 7), false);
	cq.push(completion(1, 8), false);
	EXPECT_TRUE(cq.arm(Armed::next));
	cq.push(completion(2, 7), false);
	cq.remove(7);
	EXPECT_FALSE(cq.arm(Armed::next)) << "the one that is left was reported";
	EXPECT_EQ(cq.push(completion(3, 8), false), Pushed::raise_event);
	cq.push(completion(4, 8), false);
	cq.remove(7);
	EXPECT_TRUE(cq.arm(Armed::next)) << "the last was not";
	cq.remove(8);
	cq.push(completion(5, 7), false);
	EXPECT_TRUE(cq.arm(Armed::next)) << "it has the place of one that was reported";
}

TEST(CompletionQueue, ASolicitedRequestLooksForASolicitedCompletionInTheQueue) {
	CompletionQueue cq(8);
	cq.push(completion(0), true);
	cq.push(completion(1), false);
	EXPECT_TRUE(cq.arm(Armed::solicited_only));
	drain(cq, 1);
	EXPECT_FALSE(cq.arm(Armed::solicited_only)) << "only the unsolicited one is left";
	EXPECT_EQ(cq.push(completion(2), false), Pushed::quietly);
	EXPECT_TRUE(cq.arm(Armed::next)) << "no event has reported the third";
	EXPECT_EQ(cq.push(completion(3), true), Pushed::quietly) << "the request is used up";
}

TEST(CompletionQueue, ASolicitedCompletionIsFoundAfterOthersWereRemoved) {
	CompletionQueue cq(8);
	cq.push(completion(0, 7), false);
	cq.push(completion(1, 8), true);
	cq.push(completion(2, 7), false);
	cq.remove(7);
	EXPECT_TRUE(cq.arm(Armed::solicited_only));
	drain(cq);
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
	cq.push(completion(3, 7), true);
	cq.remove(7);
	EXPECT_FALSE(cq.arm(Armed::solicited_only));
}

TEST(CompletionQueue, ResizingKeepsWhatIsInIt) {
	CompletionQueue cq(4);
	for (std::uint64_t i = 0; i < 3; ++i) cq.push(completion(i), false);
	drain(cq, 2);
	for (std::uint64_t i = 3; i < 6; ++i) cq.push(completion(i), false);
	EXPECT_FALSE(cq.resize(2)) << "four do not fit into two";
	EXPECT_TRUE(cq.resize(16));
	EXPECT_EQ(cq.capacity(), 16u);
	for (std::uint64_t i = 6; i < 18; ++i) EXPECT_EQ(cq.push(completion(i), false), Pushed::quietly);
	EXPECT_EQ(drain(cq), (Ids{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}));
	EXPECT_TRUE(cq.resize(1));
}

TEST(CompletionQueue, ForgetsTheCompletionsOfOneQueuePair) {
	CompletionQueue cq(8);
	for (std::uint64_t i = 0; i < 8; ++i) cq.push(completion(i, i % 3 == 0 ? 7 : 8), false);
	cq.remove(7);
	EXPECT_EQ(drain(cq), (Ids{1, 2, 4, 5, 7}));
	cq.push(completion(9), false);
	EXPECT_EQ(drain(cq), Ids{9});
}

}  // namespace
}  // namespace verbena::queues
