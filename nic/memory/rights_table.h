// SPDX-License-Identifier: Apache-2.0
// The rights that a process grants to its peers on this host, where they can read them: its
// registered regions by key, and its connected queue pairs by number. A peer that finds its right
// here can copy to or from the memory itself (docs/decisions/0036).
//
// The table lies in a sealed memfd which the owner alone can write. RightsPublisher is the owner's
// side, and RightsReader and unchanged() are the readers' side.
//
// Threads: the owner writes under its engine's lock. Any number of processes read without a lock:
//   each entry has a sequence number, which is odd while the entry changes (a seqlock).
// Owns: nothing; the memory belongs to the engine.
// Errors: a reader trusts no value. A false value can only give its owner's memory away, because
//   the reader opens files of the owner only, and copies guarded.
// Invariants: zeroed memory is an empty table. An entry that is not published has key or number 0.
//   The tables have a fixed size; keys and queue pairs that find no place are not published, and
//   operations on them take the ring.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace verbena::memory {

// Where a region's bytes lie, if peers can map them.
enum class Backing : std::uint8_t {
	none,  // ordinary memory of the owner
	readable,  // a file that the program made: peers may read there
	heap,  // a file of the NIC's heap: peers may write too, because the owner can move it away
};

// A region as its entry describes it.
struct KeyRights {
	std::uint32_t key = 0;
	std::uint32_t protection_domain = 0;
	std::uint8_t access = 0;  // bits of Access
	Backing backing = Backing::none;
	std::uint32_t descriptor = 0;  // the owner's, of the file
	std::uint64_t begin = 0, end = 0;  // in the key's own address space
	std::uint64_t delta = 0;  // address + delta is the owner's virtual address
	std::uint64_t file = 0;  // inode number
	std::uint64_t offset = 0;  // where the byte `begin` lies in the file

	// Whether [address, address + length) lies in the region.
	bool contains(std::uint64_t address, std::uint64_t length) const {
		return address >= begin && address <= end && length <= end - address;
	}
	friend bool operator==(const KeyRights&, const KeyRights&) = default;
};

// A queue pair of RC that takes requests.
struct QueuePairRights {
	std::uint32_t qpn = 0;
	std::uint32_t destination_qpn = 0;
	std::uint32_t protection_domain = 0;
	std::uint8_t access = 0;  // remote_write | remote_read | remote_atomic
	std::uint8_t reads_max = 0;  // READs and atomics that it takes at a time (max_dest_rd_atomic)
	// The first PSN that it expected. A requester that counts from another one gets errors.
	std::uint32_t first_psn = 0;
	std::uint64_t peer = 0;  // the token of the process at the other end
	friend bool operator==(const QueuePairRights&, const QueuePairRights&) = default;
};

struct RightsTable {
	static constexpr std::uint32_t magic_value = 0x76'62'72'74;  // "vbrt"
	static constexpr std::uint32_t version_value = 1;
	static constexpr std::uint32_t keys_max = 1 << 15;
	static constexpr std::uint32_t block_size = 4096;  // numbers of queue pairs
	static constexpr std::uint32_t blocks_max = 4;
	static constexpr std::uint32_t queue_pairs_max = blocks_max * block_size;

	struct alignas(64) Key {
		std::atomic<std::uint32_t> sequence;
		std::atomic<std::uint32_t> key;
		std::atomic<std::uint32_t> protection_domain;
		std::atomic<std::uint32_t> access_backing;  // access, and backing in the bits from 8 on
		std::atomic<std::uint64_t> begin, end, delta, file, offset;
		std::atomic<std::uint32_t> descriptor;

		// The copy is torn if the entry changes meanwhile. Each member goes straight to its place:
		// a wide load that follows several narrow stores waits for all of them.
		void copy_to(KeyRights& rights) const;
		KeyRights rights() const {
			KeyRights result;
			copy_to(result);
			return result;
		}
	};
	struct alignas(64) QueuePair {
		std::atomic<std::uint32_t> sequence;
		std::atomic<std::uint32_t> qpn;
		std::atomic<std::uint32_t> destination_qpn;
		std::atomic<std::uint32_t> protection_domain;
		std::atomic<std::uint32_t> access_reads;  // access, and reads_max in the bits from 8 on
		std::atomic<std::uint32_t> first_psn;
		std::atomic<std::uint64_t> peer;
	};

	std::uint32_t magic;
	std::uint32_t version;
	// The owner's first blocks of queue pair numbers, each plus 1; 0: none.
	std::atomic<std::uint32_t> blocks[blocks_max];
	alignas(4096) Key keys[keys_max];
	alignas(4096) QueuePair queue_pairs[queue_pairs_max];

	// The place of a key: its index without the tag. Two keys may have the same place.
	static constexpr std::uint32_t place_of(std::uint32_t key) { return (key >> 8) % keys_max; }
	// The place of a queue pair number; queue_pairs_max if its block has none.
	std::uint32_t place_of_queue_pair(std::uint32_t qpn) const {
		for (std::uint32_t i = 0; i < blocks_max; ++i)
			if (blocks[i].load(std::memory_order_relaxed) == qpn / block_size + 1)
				return i * block_size + qpn % block_size;
		return queue_pairs_max;
	}
};
static_assert(sizeof(RightsTable::Key) == 64 && sizeof(RightsTable::QueuePair) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A consistent copy of an entry, and what unchanged() needs.
template <class Rights> struct Seen {
	Rights rights;
	const std::atomic<std::uint32_t>* at = nullptr;
	std::uint32_t sequence = 0;
};

// Both return false if the key or number is not published, or its entry is just changing.
[[nodiscard]] bool read_key(const RightsTable&, std::uint32_t key, Seen<KeyRights>&);
[[nodiscard]] bool read_queue_pair(const RightsTable&, std::uint32_t qpn, Seen<QueuePairRights>&);

// Whether the entry is still the one that was read. Everything that the reader has loaded before
// this call was loaded while the right existed.
template <class Rights> [[nodiscard]] bool unchanged(const Seen<Rights>& seen) {
	std::atomic_thread_fence(std::memory_order_acquire);
	return seen.at->load(std::memory_order_relaxed) == seen.sequence;
}

// The readers' side of one table. It keeps the last entry of each kind, so that a reader that goes
// on with one queue pair and one region looks only at their sequence numbers.
class RightsReader {
public:
	// The table outlives this object.
	explicit RightsReader(const RightsTable& table) : table_(table) {}

	// The right, or null if the key or number is not published or its entry is just changing. Valid
	// until the next call of the same function; unchanged() says whether the right still exists.
	const Seen<KeyRights>* key(std::uint32_t key) {
		if (key_.at && key_.rights.key == key && unchanged(key_)) [[likely]]
			return &key_;
		return kept(key_, read_key(table_, key, key_));
	}
	const Seen<QueuePairRights>* queue_pair(std::uint32_t qpn) {
		if (queue_pair_.at && queue_pair_.rights.qpn == qpn && unchanged(queue_pair_)) [[likely]]
			return &queue_pair_;
		return kept(queue_pair_, read_queue_pair(table_, qpn, queue_pair_));
	}

private:
	template <class Rights> static const Seen<Rights>* kept(Seen<Rights>& seen, bool found) {
		if (found) return &seen;
		seen.at = nullptr;
		return nullptr;
	}

	const RightsTable& table_;
	Seen<KeyRights> key_;
	Seen<QueuePairRights> queue_pair_;
};

// The owner's side. Without a table every call is without effect.
class RightsPublisher {
public:
	// `table` is empty and outlives the use of this object. Null: nothing is published any more.
	void attach(RightsTable* table) { table_ = table; }

	// Publishes the queue pairs of this block, unless blocks_max others have been added.
	void add_block(std::uint32_t block);

	// Publishes a region, or replaces its entry. False: another key has its place.
	bool publish(const KeyRights&);
	// Ends the right. A peer that has read the entry may still be copying (NIC's withdrawal,
	// nic/engine/direct.cc). Returns whether the key was published.
	bool withdraw_key(std::uint32_t key);

	// Publishes a queue pair, or replaces its entry; without effect if its block was not added.
	void publish(const QueuePairRights&);
	void withdraw_queue_pair(std::uint32_t qpn);

	// The published region with this key, whatever its tag.
	bool find(std::uint32_t key, KeyRights& found) const;
	// Calls visit(const KeyRights&) for each published region.
	template <class Visit> void for_each_key(Visit&& visit) const {
		if (!table_) return;
		for (std::size_t place = 0; place < published_.size(); ++place)
			if (published_[place]) visit(table_->keys[place].rights());
	}

private:
	RightsTable* table_ = nullptr;
	std::bitset<RightsTable::keys_max> published_;
};

}  // namespace verbena::memory
