// A ring of completions: one producer (the adapter, under the engine's lock), one consumer at a time (`lock`).
//
// Notification follows the verbs: a request arms the queue for one event; completions that lie in the queue already
// raise none. A queue that overflows loses the newest completion, is in error for good, and says so once through
// `overrun`.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "base/cache_aligned.h"
#include "base/spin_lock.h"
#include "nic/queues/completion.h"

namespace verbena::queues {

enum class Armed : std::uint8_t { no, solicited_only, next };

class alignas(64) CompletionQueue : public CacheAligned {
public:
	explicit CompletionQueue(std::uint32_t entries) { resize(entries); }

	enum class Pushed : std::uint8_t { quietly, raise_event, overran };

	// Producer. `solicited`: the message asked for an event, or the status is an error.
	Pushed push(const Completion& completion, bool solicited) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed);
		if (head - tail_seen_ > mask_) [[unlikely]] {
			tail_seen_ = tail_.load(std::memory_order_acquire);
			if (head - tail_seen_ > mask_) {
				const bool first = !overrun_;
				overrun_ = true;
				return first ? Pushed::overran : Pushed::quietly;
			}
		}
		ring_[head & mask_] = completion;
		head_.store(head + 1, std::memory_order_release);
		if (armed_ != Armed::no && (solicited || armed_ == Armed::next)) [[unlikely]] {
			armed_ = Armed::no;
			return Pushed::raise_event;
		}
		return Pushed::quietly;
	}

	// Consumer, under `lock`. Calls take(completion) for at most `count` completions, oldest first; returns how many.
	template <class Take> int drain(int count, Take&& take) {
		const std::uint32_t head = head_.load(std::memory_order_acquire);
		std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		int taken = 0;
		for (; taken < count && tail != head; ++taken, ++tail) take(ring_[tail & mask_], taken);
		if (taken) tail_.store(tail, std::memory_order_release);
		return taken;
	}
	bool empty() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_relaxed); }

	// Under the engine's lock, so that no completion slips between the consumer's last look and the request.
	void arm(Armed wanted) {
		if (armed_ == Armed::no || wanted == Armed::next) armed_ = wanted;
	}

	// Under both locks. Entries in the queue are kept; false: they do not fit.
	bool resize(std::uint32_t entries) {
		const std::uint32_t size = std::bit_ceil(entries);
		const std::uint32_t head = head_.load(std::memory_order_relaxed), tail = tail_.load(std::memory_order_relaxed);
		if (head - tail > size) return false;
		auto ring = std::make_unique<Completion[]>(size);
		for (std::uint32_t i = tail; i != head; ++i) ring[i & (size - 1)] = ring_[i & mask_];
		ring_ = std::move(ring);
		mask_ = size - 1;
		tail_seen_ = tail;
		return true;
	}
	std::uint32_t capacity() const { return mask_ + 1; }

	// Under both locks: forgets the completions of a QP that is destroyed or reset.
	void remove(std::uint32_t qpn) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed);
		std::uint32_t kept = tail_.load(std::memory_order_relaxed);
		for (std::uint32_t i = kept; i != head; ++i)
			if (ring_[i & mask_].qpn != qpn) ring_[kept++ & mask_] = ring_[i & mask_];
		head_.store(kept, std::memory_order_release);
	}

	SpinLock lock;
	void* user = nullptr;  // the ABI object around this queue

private:
	std::unique_ptr<Completion[]> ring_;
	std::uint32_t mask_ = 0;
	alignas(64) std::atomic<std::uint32_t> head_{0};
	std::uint32_t tail_seen_ = 0;
	Armed armed_ = Armed::no;
	bool overrun_ = false;
	alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace verbena::queues
