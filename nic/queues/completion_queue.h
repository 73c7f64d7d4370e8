// A ring of completions between the adapter and the threads that poll.
//
// Threads: one producer, the adapter, under the engine's lock; one consumer at a time, a thread
//   that polls and holds `lock`. The consumer does not need the engine's lock.
// Owns: the ring.
// Errors: a full queue loses each new completion. Only the first loss is reported, as
//   Pushed::overran.
// Invariants: a request arms the queue for one event, as in ibv_req_notify_cq(3); completions that
//   are already in the queue raise none.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "base/cache_aligned.h"
#include "base/spin_lock.h"
#include "nic/queues/completion.h"

namespace verbena::queues {

// The completion for which a queue raises an event: none, the next solicited one, or the next.
enum class Armed : std::uint8_t { no, solicited_only, next };

class alignas(64) CompletionQueue : public CacheAligned {
public:
	// The capacity is `entries`, rounded up to a power of two.
	explicit CompletionQueue(std::uint32_t entries) { resize(entries); }

	// quietly: the caller has nothing to do. The completion is in the queue, or it was lost and an
	//   earlier loss was reported already.
	// raise_event: the queue was armed, and the caller raises its event.
	// overran: the completion is the first one that was lost.
	enum class Pushed : std::uint8_t { quietly, raise_event, overran };

	// Producer. `solicited`: the message requested an event, or the status is an error.
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
		// The release store makes the entry visible to drain() together with the data that it
		// reports.
		ring_[head & mask_] = completion;
		head_.store(head + 1, std::memory_order_release);
		if (armed_ != Armed::no && (solicited || armed_ == Armed::next)) [[unlikely]] {
			armed_ = Armed::no;
			return Pushed::raise_event;
		}
		return Pushed::quietly;
	}

	// Consumer, under `lock`. Removes at most `count` completions, oldest first, calls
	// take(completion, index) for each with index 0, 1, ..., and returns their number. `completion`
	// is a reference that is valid only inside take().
	template <class Take> int drain(int count, Take&& take) {
		const std::uint32_t head = head_.load(std::memory_order_acquire);
		std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		int taken = 0;
		for (; taken < count && tail != head; ++taken, ++tail) take(ring_[tail & mask_], taken);
		if (taken) tail_.store(tail, std::memory_order_release);
		return taken;
	}
	bool empty() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_relaxed); }

	// Requests one event (ibv_req_notify_cq(3)). Under the engine's lock, because push() reads the
	// request. If there are several requests before the event, `next` prevails over
	// `solicited_only`.
	void arm(Armed wanted) {
		if (armed_ == Armed::no || wanted == Armed::next) armed_ = wanted;
	}

	// Under the engine's lock and `lock`. Changes the capacity to `entries`, rounded up to a power
	// of two, and keeps the completions in the queue. Returns false, without effect, if they do not
	// fit.
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

	// Under the engine's lock and `lock`. Removes the completions of a queue pair that is destroyed
	// or reset.
	void remove(std::uint32_t qpn) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed);
		std::uint32_t kept = tail_.load(std::memory_order_relaxed);
		for (std::uint32_t i = kept; i != head; ++i)
			if (ring_[i & mask_].qpn != qpn) ring_[kept++ & mask_] = ring_[i & mask_];
		head_.store(kept, std::memory_order_release);
	}

	SpinLock lock;  // the consumer's
	void* user = nullptr;  // the verbs object of this queue (SoftCq), which events name

private:
	std::unique_ptr<Completion[]> ring_;
	std::uint32_t mask_ = 0;
	alignas(64) std::atomic<std::uint32_t> head_{0};
	std::uint32_t tail_seen_ = 0;  // the producer's last reading of tail_
	Armed armed_ = Armed::no;
	bool overrun_ = false;  // a completion was lost, and push() has reported it
	alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace verbena::queues
