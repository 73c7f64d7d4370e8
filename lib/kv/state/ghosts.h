// SPDX-License-Identifier: Apache-2.0
// Ghosts: the hashes of items that were evicted lately, without the items. An item that comes back
// while its ghost is here is used again and again.
//
// A ghost has 4 bytes: a fingerprint of 22 bits, and in 10 bits the time of its eviction, counted
// in evictions. Its hash selects 16 slots, and it lies in one of these, so there is no list. If all
// 16 are taken, the oldest of them is forgotten early.
//
// Threads: any one at a time. No I/O.
// Errors: an answer is a hint. take() finds about one hash of 250,000 that was never added, and
//   misses about one of 100 that should be remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::kv {

class Ghosts {
public:
	// The bytes for `remembered` ghosts.
	static constexpr std::size_t bytes_for(std::size_t remembered) {
		return buckets_for(remembered) * ways * sizeof(Ghost);
	}

	// bytes_for() one ghost more is this much more at most.
	static constexpr std::size_t bytes_step = 64;

	// Adds a ghost. From now on, the last `remembered` ones that were added are remembered. If that
	// is more than a quarter above the number for which there is room, the memory is made anew, and
	// all ghosts are forgotten.
	void add(std::uint64_t hash, std::size_t remembered);
	// Removes the ghost of this hash. Returns false if there is none.
	bool take(std::uint64_t hash);

	std::size_t bytes() const { return slots_.size() * sizeof(Ghost); }

private:
	// The fingerprint above, the epoch of its addition below; 0: an empty slot.
	using Ghost = std::uint32_t;
	static constexpr std::size_t ways = bytes_step / sizeof(Ghost);
	static constexpr unsigned epoch_bits = 10;
	static constexpr Ghost epoch_mask = (1u << epoch_bits) - 1;
	// A ghost that is remembered has at most 5/4 as many epochs.
	static constexpr std::size_t epochs_remembered = 512;
	// Slots that each add() looks at, to empty those whose ghosts are not remembered any more. So
	// none is left when the epochs begin again.
	static constexpr unsigned swept = 3;

	static constexpr std::size_t buckets_for(std::size_t remembered) {
		return (remembered * 3 / 2 + ways - 1) / ways + 1;
	}
	static Ghost fingerprint_of(std::uint64_t hash);
	Ghost* bucket_of(std::uint64_t hash);
	Ghost age_of(Ghost ghost) const { return (epoch_ - ghost) & epoch_mask; }
	bool is_remembered(Ghost ghost) const { return ghost != 0 && age_of(ghost) * epoch_length_ <= remembered_; }
	void make_room(std::size_t remembered);

	std::vector<Ghost> slots_;
	std::size_t room_ = 0;  // the number of ghosts for which the slots were made
	std::size_t remembered_ = 0;
	std::size_t epoch_length_ = 1, added_in_epoch_ = 0;  // ghosts
	Ghost epoch_ = 0;
	std::size_t hand_ = 0;  // the slot to be swept next
};

}  // namespace verbena::kv
