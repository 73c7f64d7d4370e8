// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/doorbells.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace verbena::engine {
namespace {

using transport::QueuePair;

struct Queue : QueuePair {
	Queue() { cold = std::make_unique<transport::ColdQueuePair>(); }
};

TEST(Doorbells, TakeVisitsEachQueuePairThatRangOnce) {
	Doorbells bells;
	Queue a, b;
	bells.ring(a);
	bells.ring(b);
	bells.ring(a);
	EXPECT_TRUE(bells.rung());
	int of_a = 0, of_b = 0;
	bells.take([&](QueuePair& qp) { ++(&qp == &a ? of_a : of_b); });
	EXPECT_EQ(of_a, 1);
	EXPECT_EQ(of_b, 1);
	EXPECT_FALSE(bells.rung());
}

TEST(Doorbells, AQueuePairMayRingAgainDuringItsVisit) {
	Doorbells bells;
	Queue a;
	bells.ring(a);
	int visits = 0;
	while (bells.rung())
		bells.take([&](QueuePair& qp) {
			if (++visits < 3) bells.ring(qp);
		});
	EXPECT_EQ(visits, 3);
}

// A request stayed in its send queue, and its sender waited, until the next one was posted: the
// taker had looked at the send queue before the poster saw that the flag was cleared.
TEST(Doorbells, ARequestPostedWhileTheDoorbellIsTakenIsSeen) {
	using Clock = std::chrono::steady_clock;
	Doorbells bells;
	Queue queue;
	std::atomic<std::uint32_t> seen{0};
	std::atomic<bool> ended{false};
	std::thread taker([&] {
		while (!ended.load(std::memory_order_relaxed))
			bells.take([&](QueuePair& qp) {
				seen.store(qp.sq_head.load(std::memory_order_acquire), std::memory_order_release);
			});
	});
	const auto post = [&](std::uint32_t request) {
		queue.sq_head.store(request, std::memory_order_release);
		bells.ring(queue);
	};
	const auto is_seen = [&](std::uint32_t request) {
		const auto deadline = Clock::now() + std::chrono::seconds(10);
		for (std::uint32_t polls = 1; seen.load(std::memory_order_acquire) != request; ++polls) {
			if (polls % 1024 != 0) continue;
			if (Clock::now() > deadline) return false;
			std::this_thread::yield();
		}
		return true;
	};
	const auto end = Clock::now() + std::chrono::seconds(1);
	bool all_seen = true;
	for (std::uint32_t i = 1; all_seen && i < 1'000'000 && Clock::now() < end; i += 2) {
		post(i);
		// The second request of a pair comes at any moment of the first one's visit.
		for (std::uint32_t pauses = i / 2 % 32; pauses > 0; --pauses) __builtin_ia32_pause();
		post(i + 1);
		all_seen = is_seen(i + 1);
		EXPECT_TRUE(all_seen) << "request " << i + 1 << " was posted, and no visit followed";
	}
	ended = true;
	taker.join();
}

}  // namespace
}  // namespace verbena::engine
