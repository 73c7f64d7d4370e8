// SPDX-License-Identifier: Apache-2.0
// A ring of receive work requests in posting order: the receive queue of one queue pair, or a
// shared receive queue.
//
// Threads: producers are the program's threads, one at a time, under `lock`; the consumer is the
//   adapter, under the engine's lock.
// Owns: the ring. A WQE is valid from front() to pop(). The responder copies the WQE of a message
//   that takes several slots, because other queue pairs may use a shared queue in between.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sched.h>

#include "base/cache_aligned.h"
#include "base/prefetch.h"
#include "base/spin_lock.h"
#include "nic/queues/work_request.h"

namespace verbena::queues {

// The producer calls prepare() and commit(); the consumer calls front(), prefetch(), exchange(),
// pop(), posted(), wait_for_producer(), clear() and limit_reached().
class alignas(64) ReceiveQueue : public CacheAligned {
public:
	ReceiveQueue(std::uint32_t entries, std::uint32_t segments_max)
		: mask_(std::bit_ceil(entries) - 1),
		  stride_(sizeof(ReceiveWqe) + segments_max * sizeof(Segment)),
		  segments_max_(segments_max),
		  ring_(std::make_unique<std::byte[]>(std::size_t{mask_ + 1} * stride_)) {}

	// Returns the free entry that is `ahead` places after the next one to commit, or null if the
	// queue is full. The adapter sees the entry after commit().
	ReceiveWqe* prepare(std::uint32_t ahead) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed) + ahead;
		if (head - tail_.load(std::memory_order_acquire) > mask_) return nullptr;
		return at(head);
	}
	// Publishes the next `count` prepared entries.
	void commit(std::uint32_t count) {
		head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
	}

	// Returns the oldest entry, or null if the queue is empty.
	ReceiveWqe* front() {
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		return tail == head_.load(std::memory_order_acquire) ? nullptr : at(tail);
	}
	// Prefetches the start of the first segment of the entry `ahead` places after the oldest, if
	// that entry is posted.
	void prefetch(std::uint32_t ahead) {
		const std::uint32_t index = tail_.load(std::memory_order_relaxed) + ahead;
		if (static_cast<std::int32_t>(head_.load(std::memory_order_acquire) - index) > 0)
			verbena::prefetch(reinterpret_cast<const void*>(at(index)->segments()->address), 2 * cache_line);
	}
	// Puts the entry that is `ahead` places after the oldest in the place of the oldest, and that
	// one in its place. Both are posted.
	void exchange(std::uint32_t ahead) {
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		auto* const oldest = reinterpret_cast<std::byte*>(at(tail));
		std::swap_ranges(oldest, oldest + stride_, reinterpret_cast<std::byte*>(at(tail + ahead)));
	}
	void pop() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
	// The number of entries that are committed and not popped.
	std::uint32_t posted() const {
		return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
	}
	// Waits until a producer that has already called lock() has called unlock(). The caller has
	// stored something that producers read after unlock(). A producer whose entries are not visible
	// when this returns reads the new value. Gives up on a producer that does not run for a long
	// time, because the caller holds the engine's lock.
	void wait_for_producer() {
		for (int patience = 0; patience < 10'000; ++patience) {
			if (lock.try_lock()) return lock.unlock();
			if (patience < 200) cpu_relax();
			else sched_yield();
		}
	}
	// Discards all entries.
	void clear() { tail_.store(head_.load(std::memory_order_relaxed), std::memory_order_release); }

	// The entries committed, and those popped, since the queue was made, modulo 2^32.
	std::uint32_t committed() const { return head_.load(std::memory_order_acquire); }
	std::uint32_t taken() const { return tail_.load(std::memory_order_relaxed); }

	std::uint32_t capacity() const { return mask_ + 1; }
	std::uint32_t segments_max() const { return segments_max_; }
	// The bytes of one entry: a ReceiveWqe and segments_max() segments.
	std::uint32_t stride() const { return stride_; }

	// Returns true if an SRQ has fallen below its limit, and turns the limit off, so that each
	// limit is reported once (ibv_modify_srq(3)).
	bool limit_reached() {
		if (limit == 0 || posted() >= limit) return false;
		limit = 0;
		return true;
	}

	SpinLock lock;  // the producers'
	std::uint32_t limit = 0;  // an SRQ's limit in entries, under the engine's lock; 0: off
	bool shared = false;  // this is an SRQ
	void* user = nullptr;  // the verbs object of an SRQ

private:
	ReceiveWqe* at(std::uint32_t index) {
		return reinterpret_cast<ReceiveWqe*>(ring_.get() + std::size_t{index & mask_} * stride_);
	}

	std::uint32_t mask_, stride_, segments_max_;
	std::unique_ptr<std::byte[]> ring_;
	std::atomic<std::uint32_t> head_{0}, tail_{0};
};

}  // namespace verbena::queues
