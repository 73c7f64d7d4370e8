// Memory regions and windows by key. A key is 24 bits of index, hidden by a per-table secret, and 8 bits of tag; the
// tag of a type-2 window is its user's to choose (vol. 1, 10.6.7.2.2), that of a region is random.
//
// Owned by one adapter and used under its lock. Any change of a region or window starts a new generation, which empties
// every `RegionCache`; a cache therefore never outlives what it remembers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace verbena::memory {

// The values of `enum ibv_access_flags`, and one of our own.
enum Access : std::uint8_t {
	local_write = 1,
	remote_write = 2,
	remote_read = 4,
	remote_atomic = 8,
	window_bind = 16,
	zero_based = 32,
	local_use = 64,  // may be named by an lkey: regions, not windows
};

struct RegionCache {
	std::uint32_t key = 0;
	std::uint32_t access = 0;
	std::uint64_t generation = 0;
	std::uint64_t begin = 0, end = 0;  // in the key's own address space
	std::uint64_t delta = 0;  // + address = virtual address
};

// Who asks: keys belong to a protection domain, type-2 windows to one QP.
struct Accessor {
	std::uint32_t protection_domain;
	std::uint32_t qpn;
};

class KeyTable {
public:
	explicit KeyTable(std::uint64_t secret) : index_mask_(secret & 0xffffff), tag_state_(secret) {}

	struct Registration {
		std::uint32_t protection_domain;
		std::uint64_t iova;  // how keys' users name the first byte
		std::uint64_t address;  // where it is
		std::uint64_t length;
		std::uint8_t access;
	};
	struct Binding {
		std::uint32_t window_key;  // any key the window has had
		std::uint32_t new_key;  // the same index, a tag of the user's choice
		std::uint32_t region_key;
		std::uint64_t address;
		std::uint64_t length;  // 0 unbinds
		std::uint8_t access;
		std::uint32_t qpn;  // 0 for a type-1 window, which any QP of the domain may use
	};

	std::uint32_t register_region(const Registration&);
	bool reregister(std::uint32_t key, const Registration&);
	bool deregister(std::uint32_t key);  // false: unknown, or windows are bound to it
	std::uint32_t allocate_window(std::uint32_t protection_domain);
	bool deallocate_window(std::uint32_t key);  // any key it has had
	bool bind(const Binding&);  // false: a bind error, nothing changed
	bool invalidate(std::uint32_t key, Accessor accessor);  // type-2 windows only (10.6.7.2.6)

	// The memory behind [address, address + length) of a key, or null without the right to `access` it.
	// `owner.accessor()` says who asks, and is called only when the cache misses.
	template <class Owner>
	std::byte* resolve(RegionCache& cache, std::uint32_t key, std::uint64_t address, std::uint32_t length,
		std::uint8_t access, const Owner& owner) {
		if (cache.key != key || cache.generation != generation_ || (cache.access & access) != access) [[unlikely]]
			if (!fill(cache, key, access, owner.accessor())) return nullptr;
		if (address < cache.begin || address > cache.end || length > cache.end - address) [[unlikely]]
			return nullptr;
		return reinterpret_cast<std::byte*>(address + cache.delta);
	}

	std::size_t regions() const { return live_; }

private:
	enum class Kind : std::uint8_t { unused, region, window };
	struct Entry {
		std::uint64_t begin = 0, end = 0, delta = 0;
		std::uint32_t key = 0;
		std::uint32_t protection_domain = 0;
		std::uint32_t qpn = 0;
		std::uint32_t bound_to = 0;  // index of the region under a bound window
		std::uint32_t windows = 0;  // bound to this region
		std::uint8_t access = 0;
		Kind kind = Kind::unused;
		bool bound = false;
	};

	bool fill(RegionCache&, std::uint32_t key, std::uint8_t access, Accessor) const;
	Entry* find(std::uint32_t key);
	Entry* find_window(std::uint32_t key);  // whatever its tag
	const Entry* find(std::uint32_t key) const;
	std::uint32_t allocate(Kind, std::uint32_t protection_domain);
	void unbind(Entry&);
	void release(Entry&);
	void set(Entry&, const Registration&);
	void changed() { ++generation_; }

	std::vector<Entry> entries_;
	std::deque<std::uint32_t> free_;  // oldest first: a key's index rests as long as possible
	std::size_t live_ = 0;
	std::uint32_t index_mask_;
	std::uint64_t tag_state_;
	std::uint64_t generation_ = 1;
};

}  // namespace verbena::memory
