// Receive work requests in posting order: the receive queue of one QP, or a shared receive queue of many.
//
// Producer: the program, under `lock`. Consumer: the adapter, under the engine's lock. A WQE stays valid from front()
// to pop(); a message of several slots takes a copy, since receive queues may be shared.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cache_aligned.h"
#include "base/prefetch.h"
#include "base/spin_lock.h"
#include "nic/queues/work_request.h"

namespace verbena::queues {

class alignas(64) ReceiveQueue : public CacheAligned {
public:
	ReceiveQueue(std::uint32_t entries, std::uint32_t segments_max)
		: mask_(std::bit_ceil(entries) - 1),
		  stride_(sizeof(ReceiveWqe) + segments_max * sizeof(Segment)),
		  segments_max_(segments_max),
		  ring_(std::make_unique<std::byte[]>(std::size_t{mask_ + 1} * stride_)) {}

	// Producer. Null: full. The entry is visible to the adapter after commit().
	ReceiveWqe* prepare(std::uint32_t ahead) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed) + ahead;
		if (head - tail_.load(std::memory_order_acquire) > mask_) return nullptr;
		return at(head);
	}
	void commit(std::uint32_t count) {
		head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
	}

	// Consumer.
	ReceiveWqe* front() {
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		return tail == head_.load(std::memory_order_acquire) ? nullptr : at(tail);
	}
	// That WQE and the memory that it names will be wanted soon.
	void prefetch(std::uint32_t ahead) {
		const std::uint32_t index = tail_.load(std::memory_order_relaxed) + ahead;
		if (static_cast<std::int32_t>(head_.load(std::memory_order_acquire) - index) > 0)
			verbena::prefetch(reinterpret_cast<const void*>(at(index)->segments()->address), 2 * cache_line);
	}
	void pop() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
	std::uint32_t posted() const {
		return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
	}
	void clear() { tail_.store(head_.load(std::memory_order_relaxed), std::memory_order_release); }

	std::uint32_t capacity() const { return mask_ + 1; }
	std::uint32_t segments_max() const { return segments_max_; }
	std::uint32_t stride() const { return stride_; }

	// SRQ: fewer than `limit` entries left raises one event; 0 is off.
	bool limit_reached() {
		if (limit == 0 || posted() >= limit) return false;
		limit = 0;
		return true;
	}

	SpinLock lock;
	std::uint32_t limit = 0;
	bool shared = false;
	void* user = nullptr;

private:
	ReceiveWqe* at(std::uint32_t index) {
		return reinterpret_cast<ReceiveWqe*>(ring_.get() + std::size_t{index & mask_} * stride_);
	}

	std::uint32_t mask_, stride_, segments_max_;
	std::unique_ptr<std::byte[]> ring_;
	std::atomic<std::uint32_t> head_{0}, tail_{0};
};

}  // namespace verbena::queues
