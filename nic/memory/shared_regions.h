// Which registered memory lies in files that another process of this host can map, so that it need not be copied for
// it.
//
// Owned by one adapter and used under its lock. Regions may overlap; each add() has its remove().
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace verbena::memory {

struct SharedFile {
	std::uint64_t file = 0;         // its inode number
	std::uint64_t offset = 0;       // of the region's first byte
	std::uint32_t descriptor = 0;   // of this process, open as long as the region is here

	friend bool operator==(const SharedFile&, const SharedFile&) = default;
};

class SharedRegions {
public:
	void add(std::uint64_t address, std::uint64_t length, const SharedFile& file) {
		const Region region{address, address + length, file};
		regions_.insert(std::ranges::upper_bound(regions_, address, {}, &Region::begin), region);
	}
	void remove(std::uint64_t address, const SharedFile& file) {
		const auto at =
			std::ranges::find_if(regions_, [&](const Region& r) { return r.begin == address && r.file == file; });
		if (at != regions_.end()) regions_.erase(at);
	}
	bool empty() const { return regions_.empty(); }

	// Where [address, address + length) lies. Nothing: in no file, or not as a whole.
	std::optional<SharedFile> find(std::uint64_t address, std::uint64_t length) const {
		// The nearest that begins at or before it; those that overlap it belong to the same mapping or do not matter.
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
