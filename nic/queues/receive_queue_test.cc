// SPDX-License-Identifier: Apache-2.0
#include "nic/queues/receive_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace verbena::queues {
namespace {

bool post(ReceiveQueue& queue, std::uint64_t id) {
	ReceiveWqe* wqe = queue.prepare(0);
	if (!wqe) return false;
	wqe->wr_id = id;
	wqe->segment_count = queue.segments_max();
	for (std::uint32_t i = 0; i < queue.segments_max(); ++i) wqe->segments()[i] = {id, i, 0};
	queue.commit(1);
	return true;
}

TEST(ReceiveQueue, GivesRequestsInPostingOrderAcrossTheWrap) {
	ReceiveQueue queue(3, 2);
	EXPECT_EQ(queue.capacity(), 4u);
	std::uint64_t posted = 0, used = 0;
	for (int round = 0; round < 10; ++round) {
		while (post(queue, posted)) ++posted;
		EXPECT_EQ(queue.posted(), 4u);
		for (int i = 0; i < 3; ++i, ++used) {
			ReceiveWqe* wqe = queue.front();
			ASSERT_NE(wqe, nullptr);
			EXPECT_EQ(wqe->wr_id, used);
			EXPECT_EQ(wqe->segments()[1].address, used) << "entries do not run into each other";
			queue.pop();
		}
	}
}

TEST(ReceiveQueue, AnEntryIsVisibleAfterCommitOnly) {
	ReceiveQueue queue(4, 1);
	ASSERT_NE(queue.prepare(0), nullptr);
	EXPECT_EQ(queue.front(), nullptr);
	queue.commit(1);
	EXPECT_NE(queue.front(), nullptr);
}

TEST(ReceiveQueue, AListIsPreparedAheadAndCommittedAtOnce) {
	ReceiveQueue queue(4, 1);
	for (std::uint32_t i = 0; i < 4; ++i) queue.prepare(i)->wr_id = i;
	EXPECT_EQ(queue.prepare(4), nullptr);
	queue.commit(4);
	for (std::uint64_t i = 0; i < 4; ++i, queue.pop()) EXPECT_EQ(queue.front()->wr_id, i);
	EXPECT_EQ(queue.front(), nullptr);
}

TEST(ReceiveQueue, ExchangesTheOldestRequestWithALaterOneAcrossTheWrap) {
	ReceiveQueue queue(4, 2);
	std::uint64_t next = 0;
	for (; next < 3; ++next, queue.pop()) post(queue, next);
	for (; next < 6; ++next) post(queue, next);
	queue.exchange(2);
	for (const std::uint64_t id : {5, 4, 3}) {
		EXPECT_EQ(queue.front()->wr_id, id);
		EXPECT_EQ(queue.front()->segments()[1].address, id);
		queue.pop();
	}
	EXPECT_EQ(queue.front(), nullptr);
}

TEST(ReceiveQueue, ClearForgetsWhatIsPosted) {
	ReceiveQueue queue(4, 1);
	for (std::uint64_t i = 0; i < 3; ++i) post(queue, i);
	queue.clear();
	EXPECT_EQ(queue.posted(), 0u);
	EXPECT_EQ(queue.front(), nullptr);
	EXPECT_TRUE(post(queue, 9));
	EXPECT_EQ(queue.front()->wr_id, 9u);
}

TEST(ReceiveQueue, ItsLimitIsReachedOnce) {
	ReceiveQueue queue(8, 1);
	for (std::uint64_t i = 0; i < 4; ++i) post(queue, i);
	EXPECT_FALSE(queue.limit_reached()) << "0 is off";
	queue.limit = 3;
	queue.pop();
	EXPECT_FALSE(queue.limit_reached());
	queue.pop();
	EXPECT_TRUE(queue.limit_reached());
	queue.pop();
	EXPECT_FALSE(queue.limit_reached());
}

// A receive that was posted while its queue pair entered the error state stayed in the queue: its
// poster had read the old state, and the flush had already looked.
TEST(ReceiveQueue, AnEntryPostedWhileTheStateChangesIsSeenByThePosterOrTheFlush) {
	constexpr std::uint32_t rounds_max = 2'000'000;
	constexpr std::uint32_t ended = rounds_max + 1;
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
	ReceiveQueue queue(16, 1);
	std::atomic<std::uint32_t> begun{0}, failed{0}, done{0};
	bool poster_saw = false;
	const auto await = [](const std::atomic<std::uint32_t>& word, std::uint32_t old) {
		for (std::uint32_t looks = 1; word.load(std::memory_order_acquire) == old; ++looks)
			if (looks % 1024 == 0) std::this_thread::yield();
		return word.load(std::memory_order_acquire);
	};
	std::thread poster([&] {
		for (std::uint32_t round = 0; (round = await(begun, round)) != ended;) {
			for (std::uint32_t pauses = round % 16; pauses > 0; --pauses) cpu_relax();
			queue.lock.lock();
			queue.prepare(0)->wr_id = round;
			queue.commit(1);
			queue.lock.unlock();
			poster_saw = failed.load(std::memory_order_relaxed) == round;
			done.store(round, std::memory_order_release);
		}
	});
	std::uint32_t missed = 0;
	for (std::uint32_t round = 1; round <= rounds_max && std::chrono::steady_clock::now() < end; ++round) {
		begun.store(round, std::memory_order_release);
		for (std::uint32_t pauses = round / 16 % 16; pauses > 0; --pauses) cpu_relax();
		failed.store(round, std::memory_order_seq_cst);
		queue.wait_for_producer();
		const bool flush_saw = queue.front() != nullptr;
		await(done, round - 1);
		if (!flush_saw && !poster_saw) ++missed;
		queue.clear();
	}
	begun.store(ended, std::memory_order_release);
	poster.join();
	EXPECT_EQ(missed, 0u);
}

}  // namespace
}  // namespace verbena::queues
