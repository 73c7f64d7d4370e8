// SPDX-License-Identifier: Apache-2.0
// SCAN: a walk over the buckets of the store's table, which may grow between two steps.
#include "lib/kv/store.h"

namespace verbena::kv {
namespace {

constexpr std::uint64_t swap_neighbours(std::uint64_t bits, unsigned width, std::uint64_t lower) {
	return (bits >> width & lower) | (bits & lower) << width;
}

constexpr std::uint64_t reversed(std::uint64_t bits) {
	bits = swap_neighbours(bits, 1, 0x5555555555555555);
	bits = swap_neighbours(bits, 2, 0x3333333333333333);
	bits = swap_neighbours(bits, 4, 0x0f0f0f0f0f0f0f0f);
	return __builtin_bswap64(bits);
}
static_assert(reversed(0x1) == std::uint64_t{1} << 63 && reversed(0x0123456789abcdef) == 0xf7b3d591e6a2c480);

// The position after this one, in the order of a table with mask + 1 buckets; 0: it was the last.
std::uint64_t next_of(std::uint64_t position, std::uint64_t mask) { return reversed(reversed(position | ~mask) + 1); }

}  // namespace

// As in Redis, positions count with their bits reversed: the highest bit of a bucket's number
// changes first. A bucket b of a table with n buckets becomes b and b + n when the table doubles,
// and in this order these follow each other. So the buckets that were visited before the table
// grew are those that come first afterwards, too.
ScanCursor Store::scan(const ScanCursor& from, std::size_t buckets_max,
	const std::function<bool(std::string_view key)>& see, Nanoseconds now) const {
	const Table& smaller = old_.empty() ? table_ : old_;
	const std::uint64_t mask = smaller.size() - 1;
	std::uint64_t position = from.walk == walk_ ? from.position : 0;
	bool more = true;
	const auto visit = [&](const Item* item) {
		for (; item != nullptr; item = item->next)
			if (item->end() > now) more = see(item->key()) && more;
	};
	do {
		visit(smaller[position & mask]);
		// While the table grows, the items of this bucket are here, or in these buckets.
		if (!old_.empty())
			for (std::size_t at = position & mask; at < table_.size(); at += smaller.size()) visit(table_[at]);
		position = next_of(position, mask);
		if (position == 0) return {};
	} while (more && --buckets_max > 0);
	return {.walk = walk_, .position = position};
}

}  // namespace verbena::kv
