// SPDX-License-Identifier: Apache-2.0
// A ring of completions between the adapter and the threads that poll.
//
// Threads: one producer, the adapter, under the engine's lock; one consumer at a time, a thread
//   that polls and holds `lock`. The consumer does not need the engine's lock.
// Owns: the ring.
// Errors: a full queue loses each new completion. Only the first loss is reported, as
//   Pushed::overran.
// Invariants: a request is good for one event, as in ibv_req_notify_cq(3). A completion that no
//   event has reported yet raises it at once, also if it came before the request
//   (docs/decisions/0026). An event reports all completions that are in the queue then.
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
		if (solicited) solicited_end_ = head + 1;
		if (armed_ != Armed::no && (solicited || armed_ == Armed::next)) [[unlikely]] {
			armed_ = Armed::no;
			reported_end_ = head + 1;
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
	// The completions that are in the queue now.
	std::uint32_t unpolled() const {
		return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
	}
	// The completions that were added, and that were taken, since the queue was made, modulo 2^32.
	std::uint32_t produced() const { return head_.load(std::memory_order_acquire); }
	std::uint32_t taken() const { return tail_.load(std::memory_order_acquire); }
	bool empty() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_relaxed); }

	// Requests one event (ibv_req_notify_cq(3)). Under the engine's lock, because push() reads the
	// request. Returns true if a completion of the wanted kind is in the queue that no event has
	// reported; the caller then raises the event, and the request is used up. If there are several
	// requests before the event, `next` prevails over `solicited_only`. A consumer that drains the
	// queue at the same time may have taken that completion already, so an event may come for
	// nothing.
	[[nodiscard]] bool arm(Armed wanted) {
		const std::uint32_t head = head_.load(std::memory_order_relaxed);
		const std::uint32_t tail = tail_.load(std::memory_order_acquire);
		if (reported_end_ - tail > head - tail) reported_end_ = tail;  // those were taken
		if (wanted == Armed::next ? reported_end_ != head : holds_solicited(reported_end_)) {
			armed_ = Armed::no;
			reported_end_ = head;
			return true;
		}
		if (armed_ == Armed::no || wanted == Armed::next) armed_ = wanted;
		return false;
	}

	// Under the engine's lock. The request that no event has answered yet.
	Armed armed() const { return armed_; }

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
		const std::uint32_t reported = reported_end_ - kept > head - kept ? kept : reported_end_;
		const bool solicited = holds_solicited(kept);
		reported_end_ = kept;
		for (std::uint32_t i = kept; i != head; ++i) {
			if (ring_[i & mask_].qpn == qpn) continue;
			ring_[kept++ & mask_] = ring_[i & mask_];
			if (reported - i - 1 < head - i) reported_end_ = kept;
		}
		head_.store(kept, std::memory_order_release);
		if (solicited) solicited_end_ = kept;  // one may be left: a needless event loses nothing
	}

	// The queues whose events are to be delivered. A queue is in one such list at most, and its
	// memory is in the queues, so adding cannot fail.
	class List {
	public:
		// No effect if the queue is in the list.
		void add(CompletionQueue& queue) {
			if (queue.listed_) return;
			queue.listed_ = true;
			queue.next_listed_ = nullptr;
			(last_ ? last_->next_listed_ : first_) = &queue;
			last_ = &queue;
		}
		bool empty() const { return first_ == nullptr; }
		// Removes the first queue, in the order of add(), and returns it; null if there is none.
		CompletionQueue* take() {
			CompletionQueue* const queue = first_;
			if (!queue) return nullptr;
			first_ = queue->next_listed_;
			if (!first_) last_ = nullptr;
			queue->listed_ = false;
			return queue;
		}

	private:
		CompletionQueue *first_ = nullptr, *last_ = nullptr;
	};

	SpinLock lock;  // the consumer's
	void* user = nullptr;  // the verbs object of this queue (SoftCq), which events name

private:
	// Whether the last solicited completion lies between `begin` and the head, modulo 2^32.
	bool holds_solicited(std::uint32_t begin) const {
		return solicited_end_ - begin - 1 < head_.load(std::memory_order_relaxed) - begin;
	}

	std::unique_ptr<Completion[]> ring_;
	std::uint32_t mask_ = 0;
	alignas(64) std::atomic<std::uint32_t> head_{0};
	std::uint32_t tail_seen_ = 0;  // the producer's last reading of tail_
	std::uint32_t solicited_end_ = 0;  // one past the last solicited completion
	std::uint32_t reported_end_ = 0;  // one past the last completion that an event has reported
	Armed armed_ = Armed::no;
	bool listed_ = false;  // in a List
	CompletionQueue* next_listed_ = nullptr;
	bool overrun_ = false;  // a completion was lost, and push() has reported it
	alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace verbena::queues
