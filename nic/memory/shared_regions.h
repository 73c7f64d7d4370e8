// SPDX-License-Identifier: Apache-2.0
// The registered memory that lies in files which another process of this host can map, so that a
// READ need not copy it twice (docs/decisions/0016).
//
// Threads: owned by one adapter and used under the engine's lock.
// Owns: nothing; each descriptor belongs to the memory region that was registered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace verbena::memory {

struct SharedFile {
	std::uint64_t file = 0;  // inode number
	std::uint64_t offset = 0;  // where the region's first byte lies in it
	std::uint32_t descriptor = 0;  // this process's, open while the region is in the list

	friend bool operator==(const SharedFile&, const SharedFile&) = default;
};

class SharedRegions {
public:
	// Each add() needs its remove(). Regions may overlap.
	void add(std::uint64_t address, std::uint64_t length, const SharedFile& file) {
		const Region region{address, address + length, file};
		regions_.insert(std::ranges::upper_bound(regions_, address, {}, &Region::begin), region);
	}
	void remove(std::uint64_t address, const SharedFile& file) {
		const auto at =
			std::ranges::find_if(regions_, [&](const Region& r) { return r.begin == address && r.file == file; });
		if (at != regions_.end()) regions_.erase(at);
	}
	// The pages of [begin, end) lie in another file now: no region on them is shared any more.
	void remove_overlapping(std::uint64_t begin, std::uint64_t end) {
		std::erase_if(regions_, [&](const Region& each) { return each.begin < end && begin < each.end; });
	}
	bool empty() const { return regions_.empty(); }

	// Returns where [address, address + length) lies, or nothing if it is not wholly inside one
	// region.
	std::optional<SharedFile> find(std::uint64_t address, std::uint64_t length) const {
		// Only the last region that begins at or before `address` is looked at. An overlapping
		// region that would also match belongs to the same mapping, or missing it costs only a
		// copy.
		const auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
		if (after == regions_.begin()) return std::nullopt;
		const Region& region = *std::prev(after);
		if (address >= region.end || length > region.end - address) return std::nullopt;
		SharedFile found = region.file;
		found.offset += address - region.begin;
		return found;
	}

private:
	struct Region {
		std::uint64_t begin, end;
		SharedFile file;
	};
	std::vector<Region> regions_;
};

}  // namespace verbena::memory
