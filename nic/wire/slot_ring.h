// The same-host link's format: one `Direction` of a link is a ring of slots with a separate payload arena, and a ring
// of 8-byte acknowledgement records. One producer process, one consumer process, and the memory between them is trusted
// by neither:
//
//  - The producer publishes a slot by storing its lap last; the consumer needs no head index.
//  - Either side keeps its own positions in private memory (`SlotWriter`, `SlotReader`, ...) and range-checks the
//  other's.
//  - The reader copies a slot's 64 bytes once into private memory before it looks at any field.
//
// Payload is apart from the slots because in a mixed ring old payload bytes could pass for a lap. A crash in the middle
// of a write leaves an unpublished slot, which nobody sees. All of these objects are owned by one engine and used under
// its lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nic/wire/slot.h"

namespace verbena::wire {

// The two ends and the IP fields of datagrams sent through a link: what a receiver needs to write a GRH.
struct AddressPair {
	std::uint8_t source[16];
	std::uint8_t destination[16];
	std::uint8_t traffic_class;
	std::uint8_t hop_limit;
	std::uint16_t reserved;
	std::uint32_t flow_label;
	friend bool operator==(const AddressPair&, const AddressPair&) = default;
};

// What stands before a packet in a slot of opcode `forwarded_packet`: what the kernel said of it, and `ip_id`, the
// identification with which its ICRC was found right.
struct ForwardedPacket {
	AddressPair addresses;
	std::uint16_t source_port;
	std::uint16_t ip_id;
	std::uint32_t reserved;
};
static_assert(sizeof(ForwardedPacket) == 48);

struct Direction {
	static constexpr std::uint32_t slot_count = 256;
	static constexpr std::uint32_t ack_count = 512;
	static constexpr std::uint32_t address_count = 256;
	static constexpr std::uint32_t arena_bytes = 256 * 1024;
	static constexpr std::uint32_t arena_lines = arena_bytes / 64;
	static constexpr std::uint32_t run_bytes_max = 8192;  // payload of one slot
	static constexpr std::uint32_t lent_bytes_min = 8192, lent_bytes_max = 32 * 1024;  // if it is lent

	alignas(128) std::atomic<std::uint64_t> slots_consumed;  // by the consumer
	alignas(128) std::atomic<std::uint64_t> acks_consumed;  // by the consumer
	alignas(128) std::atomic<std::uint32_t> producer_waits;  // set by a producer that found it full, cleared by the
	                                                         // consumer that made room
	alignas(128) std::atomic<std::uint32_t> borrows;  // by the consumer: it can map what the producer lends
	alignas(128) std::atomic<std::uint8_t> lent[slot_count];  // by the producer: the payload of that slot is still what
	                                                          // was asked for
	alignas(128) std::atomic<std::uint64_t> acks[ack_count];
	alignas(128) Slot slots[slot_count];
	alignas(128) AddressPair addresses[address_count];  // written by the producer before a slot refers to them
	alignas(4096) std::byte arena[arena_bytes];
};

// The round of a ring in which position `index` lies, 1 to 255. A slot is never two rounds behind, so 8 bits tell new
// from old; 0 is memory that was never written.
constexpr std::uint32_t lap_of(std::uint64_t index, std::uint32_t ring_size) {
	return static_cast<std::uint32_t>(1 + index / ring_size % 255);
}

class SlotWriter {
public:
	struct Reservation {
		Slot* slot;  // null: the ring is full
		std::byte* payload;
		std::uint32_t payload_line;
	};

	void attach(Direction* direction) {
		*this = SlotWriter();
		direction_ = direction;
	}
	bool attached() const { return direction_ != nullptr; }
	Direction* direction() const { return direction_; }

	// Room for one slot of `length` payload bytes behind `extension` bytes of extended header. Nothing is visible to
	// the consumer until publish(), and a reservation may simply be abandoned.
	Reservation reserve(std::uint32_t length, std::uint32_t extension) {
		std::uint32_t lines = length + extension > Slot::inline_bytes_max ? (length + 63) / 64 : 0;
		std::uint32_t at = arena_head_ % Direction::arena_lines;
		if (at + lines > Direction::arena_lines) {  // a payload is contiguous; the skipped end is charged to this slot
			lines += Direction::arena_lines - at;
			at = 0;
		}
		if (head_ - tail_ >= Direction::slot_count || arena_head_ + lines - arena_tail_ > Direction::arena_lines)
			[[unlikely]]
			if (!refresh(lines)) return {nullptr, nullptr, 0};
		pending_arena_head_ = arena_head_ + lines;
		Slot* slot = &direction_->slots[head_ % Direction::slot_count];
		if (lines == 0) return {slot, slot->bytes + extension, Slot::inline_payload};
		return {slot, direction_->arena + std::size_t{at} * 64, at};
	}

	void publish(Slot* slot, std::uint32_t length, Qpn source = {}) {
		arena_head_ = pending_arena_head_;
		arena_end_[head_ % Direction::slot_count] = arena_head_;
		slot->length = length;
		std::atomic_ref<std::uint32_t>(slot->lap_source)
			.store(lap_of(head_, Direction::slot_count) << 24 | source.value, std::memory_order_release);
		++head_;
	}

	// Of a slot reserved with 0 bytes behind sizeof(Lent), whose payload stays where it is until the consumer has
	// released the slot. `key` gave the right to it, on the queue pair `source`.
	void publish_lent(Slot* slot, const Lent& lent, std::uint32_t length, std::uint32_t key, Qpn source) {
		slot->lent = lent;
		slot->payload_line = Slot::lent_payload;
		direction_->lent[head_ % Direction::slot_count].store(1, std::memory_order_relaxed);
		if (loans_end_ - loans_begin_ == Direction::slot_count) ++loans_begin_;  // its slot was used again: it is read
		loans_[loans_end_++ % Direction::slot_count] = {head_, key, source.value};
		publish(slot, length, source);
	}
	bool may_lend() const { return direction_->borrows.load(std::memory_order_relaxed) != 0; }

	// The consumer is told that it must not use what it has not read to the end yet, of all loans that `match` (key,
	// source): afterwards the memory may change.
	template <class Match> void revoke(Match match) {
		if (loans_end_ == loans_begin_) return;
		const std::uint64_t consumed = direction_->slots_consumed.load(std::memory_order_acquire);
		while (loans_begin_ != loans_end_ && loans_[loans_begin_ % Direction::slot_count].position < consumed)
			++loans_begin_;
		for (std::uint64_t i = loans_begin_; i != loans_end_; ++i) {
			const Loan& loan = loans_[i % Direction::slot_count];
			if (match(loan.key, Qpn{loan.source}))
				direction_->lent[loan.position % Direction::slot_count].store(0, std::memory_order_seq_cst);
		}
	}

	std::uint64_t published() const { return head_; }
	bool drained() { return direction_->slots_consumed.load(std::memory_order_acquire) == head_; }

private:
	bool refresh(std::uint32_t lines) {
		const std::uint64_t consumed = direction_->slots_consumed.load(std::memory_order_acquire);
		if (consumed > head_ || consumed < tail_) return false;  // a hostile peer only stops its own ring
		if (consumed != tail_) {
			tail_ = consumed;
			arena_tail_ = arena_end_[(consumed - 1) % Direction::slot_count];
		}
		const bool room =
			head_ - tail_ < Direction::slot_count && arena_head_ + lines - arena_tail_ <= Direction::arena_lines;
		if (!room) direction_->producer_waits.store(1, std::memory_order_relaxed);
		return room;
	}

	Direction* direction_ = nullptr;
	std::uint64_t head_ = 0, tail_ = 0;
	std::uint64_t arena_head_ = 0, arena_tail_ = 0, pending_arena_head_ = 0;
	std::uint64_t arena_end_[Direction::slot_count] = {};

	struct Loan {
		std::uint64_t position;
		std::uint32_t key, source;
	};
	std::uint64_t loans_begin_ = 0, loans_end_ = 0;  // those before are read
	Loan loans_[Direction::slot_count] = {};
};

class SlotReader {
public:
	void attach(Direction* direction) {
		*this = SlotReader();
		direction_ = direction;
	}
	Direction* direction() const { return direction_; }

	bool ready() const {
		const std::uint32_t word =
			std::atomic_ref<std::uint32_t>(direction_->slots[next_ % Direction::slot_count].lap_source)
				.load(std::memory_order_acquire);
		return word >> 24 == lap_of(next_, Direction::slot_count);
	}
	// Copies the next slot into `image`. False: none is published.
	bool read(Slot& image) const {
		if (!ready()) return false;
		std::memcpy(&image, &direction_->slots[next_ % Direction::slot_count], sizeof(Slot));
		return true;
	}
	// Where the slot `ahead` of the next one goes, if it is published: a hint, since nothing tells.
	Qpn destination(std::uint32_t ahead) const {
		const Slot& slot = direction_->slots[(next_ + ahead) % Direction::slot_count];
		return {
			std::atomic_ref(const_cast<std::uint32_t&>(slot.destination_opcode)).load(std::memory_order_relaxed) >> 8};
	}
	// The payload of a slot that read() gave, or null if its fields point outside the arena (a hostile peer).
	const std::byte* payload(const Slot& image, std::uint32_t extension) const {
		if (image.payload_line == Slot::inline_payload)
			return image.length + extension <= Slot::inline_bytes_max && image.length <= Slot::inline_bytes_max
				? image.bytes + extension
				: nullptr;
		if (image.length > Direction::run_bytes_max || image.payload_line >= Direction::arena_lines) return nullptr;
		if (std::size_t{image.payload_line} * 64 + image.length > Direction::arena_bytes) return nullptr;
		return direction_->arena + std::size_t{image.payload_line} * 64;
	}
	// Of the slot that read() gave, if its payload is lent: whether what was read of it counts. Ask after reading.
	bool still_lent() const {
		std::atomic_thread_fence(std::memory_order_acquire);
		return direction_->lent[next_ % Direction::slot_count].load(std::memory_order_relaxed) != 0;
	}
	// The producer may lend.
	void borrow(bool can) { direction_->borrows.store(can, std::memory_order_relaxed); }
	void advance() { ++next_; }
	// Gives what was advanced over back to the producer. True: it found the ring full before, and may have to be woken.
	// (A hint: without a fence between the two stores and loads it can come a pass late, so who waits for room also
	// looks for himself now and then.)
	bool release() {
		if (released_ == next_) return false;
		direction_->slots_consumed.store(released_ = next_, std::memory_order_release);
		if (direction_->producer_waits.load(std::memory_order_relaxed) == 0) [[likely]]
			return false;
		direction_->producer_waits.store(0, std::memory_order_relaxed);
		return true;
	}
	std::uint64_t consumed() const { return next_; }

private:
	Direction* direction_ = nullptr;
	std::uint64_t next_ = 0, released_ = 0;
};

// One acknowledgement in one atomic store: lap:8 syndrome:8 PSN:24 destination QP:24. The lap makes it visible without
// a head index.
struct AckRecord {
	std::uint64_t bits = 0;
	std::uint8_t syndrome() const { return static_cast<std::uint8_t>(bits >> 48); }
	Psn24 psn() const { return {static_cast<std::uint32_t>(bits >> 24) & 0xffffff}; }
	Qpn destination() const { return {static_cast<std::uint32_t>(bits) & 0xffffff}; }
};

class AckWriter {
public:
	void attach(Direction* direction) {
		*this = AckWriter();
		direction_ = direction;
	}

	// False: the ring is full and the acknowledgement stays owed.
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

private:
	Direction* direction_ = nullptr;
	std::uint64_t head_ = 0, tail_ = 0;
};

class AckReader {
public:
	void attach(Direction* direction) {
		*this = AckReader();
		direction_ = direction;
	}

	bool read(AckRecord& record) {
		const std::uint64_t bits = direction_->acks[next_ % Direction::ack_count].load(std::memory_order_acquire);
		if (bits >> 56 != lap_of(next_, Direction::ack_count)) return false;
		record.bits = bits;
		++next_;
		if (next_ - released_ >= Direction::ack_count / 2)
			direction_->acks_consumed.store(released_ = next_, std::memory_order_release);
		return true;
	}

	// As SlotReader's.
	Qpn destination(std::uint32_t ahead) const {
		return AckRecord{direction_->acks[(next_ + ahead) % Direction::ack_count].load(std::memory_order_relaxed)}
			.destination();
	}

private:
	Direction* direction_ = nullptr;
	std::uint64_t next_ = 0, released_ = 0;
};

}  // namespace verbena::wire
