// SPDX-License-Identifier: Apache-2.0
// A hash table from queue pair numbers to small indices: open addressing with linear probing, about
// one cache line for each look-up.
//
// Threads: the loop's thread.
// Invariants: at most half full. Erasing moves later entries up instead of leaving a tombstone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace verbena::channel {

class QpnTable {
public:
	static constexpr std::uint32_t none = ~std::uint32_t{0};

	std::uint32_t find(std::uint32_t qpn) const {
		if (entries_.empty()) return none;
		for (std::size_t at = home(qpn);; at = after(at)) {
			if (entries_[at].index == none) return none;
			if (entries_[at].qpn == qpn) return entries_[at].index;
		}
	}

	// Adds a number that is not in the table.
	void insert(std::uint32_t qpn, std::uint32_t index) {
		if (2 * (size_ + 1) > entries_.size()) grow();
		place({qpn, index});
		++size_;
	}

	void erase(std::uint32_t qpn) {
		if (entries_.empty()) return;
		std::size_t at = home(qpn);
		while (entries_[at].qpn != qpn || entries_[at].index == none) {
			if (entries_[at].index == none) return;
			at = after(at);
		}
		// Close the gap: move up each later entry of the run whose home is not behind the gap.
		for (std::size_t next = after(at); entries_[next].index != none; next = after(next)) {
			const std::size_t wanted = home(entries_[next].qpn);
			if (((next - wanted) & mask()) < ((next - at) & mask())) continue;
			entries_[at] = entries_[next];
			at = next;
		}
		entries_[at] = {};
		--size_;
	}

	std::size_t size() const { return size_; }

private:
	struct Entry {
		std::uint32_t qpn = 0;
		std::uint32_t index = none;
	};
	std::size_t mask() const { return entries_.size() - 1; }
	std::size_t home(std::uint32_t qpn) const { return (qpn * 0x9e3779b1u) >> shift_; }
	std::size_t after(std::size_t at) const { return (at + 1) & mask(); }
	void place(Entry entry) {
		std::size_t at = home(entry.qpn);
		while (entries_[at].index != none) at = after(at);
		entries_[at] = entry;
	}
	void grow() {
		const std::vector<Entry> old =
			std::exchange(entries_, std::vector<Entry>(entries_.empty() ? 16 : entries_.size() * 2));
		shift_ = 32 - std::countr_zero(entries_.size());
		for (const Entry& entry : old)
			if (entry.index != none) place(entry);
	}

	std::vector<Entry> entries_;
	int shift_ = 0;  // 32 less the binary logarithm of the size; set when the table has entries
	std::size_t size_ = 0;
};

}  // namespace verbena::channel
