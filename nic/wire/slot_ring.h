// SPDX-License-Identifier: Apache-2.0
// The format of a same-host link: two `Direction`s, one for each way. A Direction has a ring of
// slots, an arena for their payloads, and a ring of 8-byte acknowledgement records. A UDP path uses
// one Direction in private memory (nic/link/udp_path.h).
//
// A payload that does not fit into its slot lies apart, in the arena. If slots and payloads shared
// one ring, old payload bytes could look like a lap.
//
// Threads: one producer process and one consumer process for each Direction. The writers and
//   readers of a process are owned by one engine and used under its lock.
// Owns: nothing; the memory belongs to the link.
// Invariants:
//  - The producer publishes a slot by storing its lap last, so the consumer needs no head index. A
//    crash in the middle of a write leaves an unpublished slot, which the consumer never sees.
//  - Each side keeps its own positions in private memory (SlotWriter, SlotReader, and AckWriter,
//    AckReader of ack_ring.h).
//  - The reader copies a slot's 64 bytes once into private memory and checks and uses only the
//    copy, because the producer can change the slot at any time.
// Errors: the peer is untrusted. Each side checks the range of the other's positions and fields; a
//   false value stops or breaks only the rings between the two processes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nic/wire/slot.h"
#include "nic/wire/traffic.h"

namespace verbena::wire {

// The addresses (GIDs) and the other IP header fields of a datagram. The receiver of the datagram
// writes its GRH from them.
struct AddressPair {
	std::uint8_t source[16];
	std::uint8_t destination[16];
	std::uint8_t traffic_class;
	std::uint8_t hop_limit;
	std::uint16_t reserved;
	std::uint32_t flow_label;
	friend bool operator==(const AddressPair&, const AddressPair&) = default;
};

// The head of the payload of a `forwarded_packet` slot (slot.h); the packet follows. It has the
// addresses and the UDP source port that the kernel reported with the packet, and the fields of the
// IPv4 header that the packet's ICRC covers (icrc.h).
struct ForwardedPacket {
	AddressPair addresses;
	std::uint16_t source_port;
	std::uint16_t ip_id;
	std::uint16_t ip_dont_fragment;  // 0 or 1
	std::uint16_t reserved;
};
static_assert(sizeof(ForwardedPacket) == 48);

// The announcement of a producer that is about to write to its peer's memory itself: the key, and
// the queue pair of the peer (docs/decisions/0036). 0: it writes nothing.
struct DirectAccess {
	std::uint64_t bits = 0;

	static constexpr DirectAccess of(std::uint32_t key, Qpn qpn) {
		return {std::uint64_t{1} << 63 | std::uint64_t{qpn.value & 0xffffff} << 32 | key};
	}
	explicit operator bool() const { return bits != 0; }
	std::uint32_t key() const { return static_cast<std::uint32_t>(bits); }
	Qpn qpn() const { return {static_cast<std::uint32_t>(bits >> 32) & 0xffffff}; }
};

// One direction of a link, in memory that both processes map. Zeroed memory is an empty ring.
struct Direction {
	static constexpr std::uint32_t slot_count = 256;
	static constexpr std::uint32_t ack_count = 512;
	static constexpr std::uint32_t address_count = 256;
	static constexpr std::uint32_t arena_bytes = 256 * 1024;
	static constexpr std::uint32_t arena_lines = arena_bytes / 64;
	static constexpr std::uint32_t run_bytes_max = 8192;  // payload of one slot
	// The limits of a shared payload of one slot. Copying a shorter payload is cheaper.
	static constexpr std::uint32_t shared_payload_bytes_min = 8192, shared_payload_bytes_max = 32 * 1024;

	// Written by the consumer: the number of slots, and of records, that it has given back.
	alignas(128) std::atomic<std::uint64_t> slots_consumed;
	alignas(128) std::atomic<std::uint64_t> acks_consumed;
	// Set by a producer that found the ring full, cleared by the consumer once it has made room.
	alignas(128) std::atomic<std::uint32_t> producer_waits;
	// Written by the consumer: not 0 if it can map the producer's files, for shared payloads.
	alignas(128) std::atomic<std::uint32_t> consumer_maps_files;
	// Written by the producer: not 0 while the consumer may use the shared payload of the slot with
	// this index.
	alignas(128) std::atomic<std::uint8_t> sharing_permitted[slot_count];
	// Written by the producer, as is all that follows. The bits are those of DirectAccess.
	alignas(128) std::atomic<std::uint64_t> direct_access;
	// The bits are those of AckRecord (ack_ring.h).
	alignas(128) std::atomic<std::uint64_t> acks[ack_count];
	alignas(128) Slot slots[slot_count];
	// Slots of datagrams refer to an entry by its index. The producer writes the entry first.
	alignas(128) AddressPair addresses[address_count];
	alignas(4096) std::byte arena[arena_bytes];
};

// The number of the round through a ring in which position `index` lies, modulo 255, plus 1. Memory
// that was never written has lap 0. A slot holds the lap of the current round or of the round
// before, never an older one, so 8 bits distinguish new from old.
constexpr std::uint32_t lap_of(std::uint64_t index, std::uint32_t ring_size) {
	return static_cast<std::uint32_t>(1 + index / ring_size % 255);
}

// The producer's side of the slots. Its positions are in private memory and count from attach().
class SlotWriter {
public:
	struct Reservation {
		Slot* slot;  // null: the ring is full
		std::byte* payload;  // where to write the payload
		std::uint32_t payload_line;  // for Slot::payload_line
	};

	// Starts at position 0 of a Direction, which must be empty and must outlive the writer's use.
	void attach(Direction* direction) {
		*this = SlotWriter();
		direction_ = direction;
	}
	Direction* direction() const { return direction_; }

	// Reserves one slot for `length` payload bytes and `extension` bytes of extended header. The
	// consumer sees nothing until publish(); a reservation may be abandoned, and the next one
	// replaces it.
	Reservation reserve(std::uint32_t length, std::uint32_t extension) {
		std::uint32_t lines = length + extension > Slot::inline_bytes_max ? (length + 63) / 64 : 0;
		std::uint32_t at = arena_head_ % Direction::arena_lines;
		if (at + lines > Direction::arena_lines) {  // skip the end: a payload is contiguous
			lines += Direction::arena_lines - at;
			at = 0;
		}
		if (head_ - tail_ >= Direction::slot_count || arena_head_ + lines - arena_tail_ > Direction::arena_lines)
			[[unlikely]]
			if (!refresh(lines)) return {nullptr, nullptr, 0};
		pending_arena_head_ = arena_head_ + lines;  // takes effect in publish()
		Slot* slot = &direction_->slots[head_ % Direction::slot_count];
		if (lines == 0) return {slot, slot->bytes + extension, Slot::inline_payload};
		return {slot, direction_->arena + std::size_t{at} * 64, at};
	}

	// Makes the reserved slot visible. The caller has written the payload and all fields except
	// `length` and `lap_source`, which this call writes; the release store of the lap comes last.
	// `source` is the queue pair that sends.
	void publish(Slot* slot, std::uint32_t length, Qpn source = {}) {
		arena_head_ = pending_arena_head_;
		arena_end_[head_ % Direction::slot_count] = arena_head_;
		slot->length = length;
		std::atomic_ref<std::uint32_t>(slot->lap_source)
			.store(lap_of(head_, Direction::slot_count) << 24 | source.value, std::memory_order_release);
		++head_;
		// After the store, so that counting does not delay the consumer.
		traffic_ += traffic_of(*slot, length);
	}

	// Publishes a slot with a shared payload of `length` bytes. The slot was reserved by
	// reserve(0, sizeof(SharedPayload)). The payload must stay unchanged until the consumer has
	// released the slot or revoke() has withdrawn the right. `key` and the queue pair `source` name
	// this right for revoke().
	void publish_shared(Slot* slot, const SharedPayload& shared, std::uint32_t length, std::uint32_t key, Qpn source) {
		slot->shared = shared;
		slot->payload_line = Slot::shared_payload;
		direction_->sharing_permitted[head_ % Direction::slot_count].store(1, std::memory_order_relaxed);
		// If `shares_` is full, its oldest entry is at least one round old. The consumer has
		// released the slot of that entry, so the entry can be dropped.
		if (shares_end_ - shares_begin_ == Direction::slot_count) ++shares_begin_;
		shares_[shares_end_++ % Direction::slot_count] = {head_, key, source.value};
		publish(slot, length, source);
	}
	// Whether the consumer can map the producer's files. After never_share() false, also if a
	// hostile consumer says that it can.
	bool can_share() const {
		return may_share_ && direction_->consumer_maps_files.load(std::memory_order_relaxed) != 0;
	}
	void never_share() { may_share_ = false; }

	// Revokes the shared payloads for which match(key, source) is true. A consumer that has not yet
	// copied such a payload completely discards its copy (still_shared()), so the memory may change
	// after this call.
	template <class Match> void revoke(Match match) {
		if (shares_end_ == shares_begin_) return;
		const std::uint64_t consumed = direction_->slots_consumed.load(std::memory_order_acquire);
		while (shares_begin_ != shares_end_ && shares_[shares_begin_ % Direction::slot_count].position < consumed)
			++shares_begin_;
		for (std::uint64_t i = shares_begin_; i != shares_end_; ++i) {
			const IssuedShare& share = shares_[i % Direction::slot_count];
			if (match(share.key, Qpn{share.source}))
				direction_->sharing_permitted[share.position % Direction::slot_count].store(
					0, std::memory_order_seq_cst);
		}
	}

	// To call when drained(): the next payload takes the start of the arena again, so that a ring
	// that carries little touches few pages. Returns the bytes of the arena that were in use since
	// the last call.
	std::uint32_t rewind() {
		const std::uint64_t used = std::min<std::uint64_t>(arena_head_ - arena_start_, Direction::arena_lines);
		tail_ = head_;
		if (const std::uint64_t at = arena_head_ % Direction::arena_lines) arena_head_ += Direction::arena_lines - at;
		arena_tail_ = arena_start_ = arena_head_;
		return static_cast<std::uint32_t>(used) * 64;
	}

	// Slots published since attach().
	std::uint64_t published() const { return head_; }
	// The packets and octets that these slots stand for.
	const Traffic& traffic() const { return traffic_; }
	// Whether the consumer has released all published slots.
	bool drained() { return direction_->slots_consumed.load(std::memory_order_acquire) == head_; }

private:
	// Reads the consumer's position. Returns whether there is room now for a slot with `lines`
	// lines of payload. If not, sets `producer_waits`, so that the consumer wakes this process.
	bool refresh(std::uint32_t lines) {
		const std::uint64_t consumed = direction_->slots_consumed.load(std::memory_order_acquire);
		// No honest consumer writes such a position. The ring then counts as full.
		if (consumed > head_ || consumed < tail_) return false;
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
	std::uint64_t head_ = 0, tail_ = 0;  // the next slot to publish; the oldest not released
	std::uint64_t arena_head_ = 0, arena_tail_ = 0, pending_arena_head_ = 0;  // in lines
	std::uint64_t arena_start_ = 0;  // arena_head_ after the last rewind()
	Traffic traffic_;
	std::uint64_t arena_end_[Direction::slot_count] = {};  // arena_head_ after each slot

	// A shared payload that the consumer may still be copying.
	struct IssuedShare {
		std::uint64_t position;  // the slot's
		std::uint32_t key, source;
	};
	// A ring of entries. The slots of the entries before shares_begin_ have been released.
	std::uint64_t shares_begin_ = 0, shares_end_ = 0;
	IssuedShare shares_[Direction::slot_count] = {};
	bool may_share_ = true;
};

// The consumer's side of the slots.
class SlotReader {
public:
	// Starts at position 0 of a Direction, which must outlive the reader's use.
	void attach(Direction* direction) {
		*this = SlotReader();
		direction_ = direction;
	}
	Direction* direction() const { return direction_; }

	// Whether the next slot is published.
	bool ready() const {
		const std::uint32_t word =
			std::atomic_ref<std::uint32_t>(direction_->slots[next_ % Direction::slot_count].lap_source)
				.load(std::memory_order_acquire);
		return word >> 24 == lap_of(next_, Direction::slot_count);
	}
	// Copies the next slot into `image`; callers look only at the copy. Returns false if none is
	// published.
	bool read(Slot& image) const {
		if (!ready()) return false;
		std::memcpy(&image, &direction_->slots[next_ % Direction::slot_count], sizeof(Slot));
		return true;
	}
	// The destination of the slot `ahead` places after the next one. A hint for prefetching: the
	// value is an old one if the slot is not published yet.
	Qpn destination(std::uint32_t ahead) const {
		const Slot& slot = direction_->slots[(next_ + ahead) % Direction::slot_count];
		return {
			std::atomic_ref(const_cast<std::uint32_t&>(slot.destination_opcode)).load(std::memory_order_relaxed) >> 8};
	}
	// The payload of the slot that read() copied into `image`, or null if the fields of `image`
	// point outside the slot or the arena (a hostile peer). `extension` is the size of the extended
	// header. A payload in the arena stays valid until release(), an inline payload as long as
	// `image`.
	const std::byte* payload(const Slot& image, std::uint32_t extension) const {
		if (image.payload_line == Slot::inline_payload)
			return image.length + extension <= Slot::inline_bytes_max && image.length <= Slot::inline_bytes_max
				? image.bytes + extension
				: nullptr;
		if (image.length > Direction::run_bytes_max || image.payload_line >= Direction::arena_lines) return nullptr;
		if (std::size_t{image.payload_line} * 64 + image.length > Direction::arena_bytes) return nullptr;
		return direction_->arena + std::size_t{image.payload_line} * 64;
	}
	// To call for a slot with a shared payload, after copying the payload and before advance().
	// False: the producer has revoked the payload, so the copy must be discarded.
	bool still_shared() const {
		std::atomic_thread_fence(std::memory_order_acquire);
		return direction_->sharing_permitted[next_ % Direction::slot_count].load(std::memory_order_relaxed) != 0;
	}
	// Announces whether this consumer can map the producer's files.
	void announce_mapping(bool can) { direction_->consumer_maps_files.store(can, std::memory_order_relaxed); }
	// Goes to the next slot.
	void advance() { ++next_; }
	// Gives all slots before the next one back to the producer. Returns true if the producer found
	// the ring full and may have to be woken. The result is a hint: no fence separates the store of
	// the position from the load of `producer_waits`, so `true` can come late. A producer that
	// waits for room therefore also looks by itself now and then.
	bool release() {
		if (released_ == next_) return false;
		direction_->slots_consumed.store(released_ = next_, std::memory_order_release);
		if (direction_->producer_waits.load(std::memory_order_relaxed) == 0) [[likely]]
			return false;
		direction_->producer_waits.store(0, std::memory_order_relaxed);
		return true;
	}
	// Slots read since attach().
	std::uint64_t consumed() const { return next_; }

private:
	Direction* direction_ = nullptr;
	std::uint64_t next_ = 0, released_ = 0;
};

}  // namespace verbena::wire
