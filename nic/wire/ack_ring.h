// SPDX-License-Identifier: Apache-2.0
// The ring of acknowledgement records in each Direction of a link (slot_ring.h): the record, its
// writer and its reader.
//
// Threads: as for the slots, one producer process and one consumer process for each Direction.
// Owns: nothing; the memory belongs to the link.
// Invariants: the producer publishes a record by one store, which contains the lap.
// Errors: the peer is untrusted. The writer checks the range of the consumer's position, and takes
//   the ring for full if it is false.
#pragma once

#include <atomic>
#include <cstdint>

#include "nic/wire/slot_ring.h"

namespace verbena::wire {

// One acknowledgement in 64 bits, which one atomic store writes: lap:8 syndrome:8 PSN:24
// destination QP:24, the lap in the highest bits. The lap shows whether the record is new, so the
// ring needs no head index.
struct AckRecord {
	std::uint64_t bits = 0;
	std::uint8_t syndrome() const { return static_cast<std::uint8_t>(bits >> 48); }
	Psn24 psn() const { return {static_cast<std::uint32_t>(bits >> 24) & 0xffffff}; }
	Qpn destination() const { return {static_cast<std::uint32_t>(bits) & 0xffffff}; }
};

// The producer's side of the acknowledgements.
class AckWriter {
public:
	void attach(Direction* direction) {
		*this = AckWriter();
		direction_ = direction;
	}

	// Returns false, without effect, if the ring is full; the caller then keeps the acknowledgement
	// and tries again later.
	bool write(std::uint8_t syndrome, Psn24 psn, Qpn destination) {
		if (head_ - tail_ >= Direction::ack_count) {
			const std::uint64_t consumed = direction_->acks_consumed.load(std::memory_order_acquire);
			if (consumed > head_ || consumed < tail_) return false;
			tail_ = consumed;
			if (head_ - tail_ >= Direction::ack_count) return false;
		}
		const std::uint64_t lap = lap_of(head_, Direction::ack_count);
		direction_->acks[head_ % Direction::ack_count].store(
			lap << 56 | std::uint64_t{syndrome} << 48 | std::uint64_t{psn.value & 0xffffff} << 24 | destination.value,
			std::memory_order_release);
		++head_;
		return true;
	}

	// Records written since attach().
	std::uint64_t written() const { return head_; }

private:
	Direction* direction_ = nullptr;
	std::uint64_t head_ = 0, tail_ = 0;
};

// The consumer's side of the acknowledgements.
class AckReader {
public:
	void attach(Direction* direction) {
		*this = AckReader();
		direction_ = direction;
	}

	// Takes the next record. Returns false if there is none. Gives records back to the producer
	// half a ring at a time.
	bool read(AckRecord& record) {
		const std::uint64_t bits = direction_->acks[next_ % Direction::ack_count].load(std::memory_order_acquire);
		if (bits >> 56 != lap_of(next_, Direction::ack_count)) return false;
		record.bits = bits;
		++next_;
		if (next_ - released_ >= Direction::ack_count / 2)
			direction_->acks_consumed.store(released_ = next_, std::memory_order_release);
		return true;
	}

	// The destination of the record `ahead` places after the next one: a hint for prefetching, like
	// SlotReader::destination().
	Qpn destination(std::uint32_t ahead) const {
		return AckRecord{direction_->acks[(next_ + ahead) % Direction::ack_count].load(std::memory_order_relaxed)}
			.destination();
	}

	// Records read since attach().
	std::uint64_t consumed() const { return next_; }

private:
	Direction* direction_ = nullptr;
	std::uint64_t next_ = 0, released_ = 0;
};

}  // namespace verbena::wire
