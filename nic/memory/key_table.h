// SPDX-License-Identifier: Apache-2.0
// Memory regions and windows by key (IBA 10.6.7).
//
// A key is 24 bits of index, masked by a secret of the table, and 8 bits of tag. The user chooses
// the tag of a type-2 window; that of a region is random.
//
// Threads: owned by one adapter and used under the engine's lock.
// Invariants: every change that can withdraw a right starts a new generation, which invalidates
//   every RegionCache. So a cache never grants a right that was withdrawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::memory {

// The values of `enum ibv_access_flags`, and two of our own.
enum Access : std::uint8_t {
	local_write = 1,
	remote_write = 2,
	remote_read = 4,
	remote_atomic = 8,
	window_bind = 16,
	zero_based = 32,
	local_use = 64,  // the key can be used as an lkey: set for regions, never for windows
	on_demand = 128,  // the region was registered with IBV_ACCESS_ON_DEMAND, for ibv_advise_mr(3)
};

// The last key that a queue pair resolved, with the rights and range found. It may be stale:
// resolve() compares its generation.
struct RegionCache {
	std::uint32_t key = 0;
	std::uint32_t access = 0;
	std::uint64_t generation = 0;
	std::uint64_t begin = 0, end = 0;  // in the key's own address space
	std::uint64_t delta = 0;  // address + delta is the virtual address
};

// The queue pair that uses a key. Keys belong to a protection domain, type-2 windows to one QP.
struct Accessor {
	std::uint32_t protection_domain;
	std::uint32_t qpn;
};

class KeyTable {
public:
	// `secret` is random, so that peers cannot guess keys from the order of registration.
	explicit KeyTable(std::uint64_t secret) : index_mask_(secret & 0xffffff), tag_state_(secret) {}

	struct Registration {
		std::uint32_t protection_domain;
		// The address by which users of the key name the first byte; ignored with zero_based.
		std::uint64_t iova;
		std::uint64_t address;  // the virtual address of the first byte
		std::uint64_t length;  // bytes
		std::uint8_t access;  // bits of Access
	};
	struct Binding {
		std::uint32_t window_key;  // any key that the window has had
		std::uint32_t new_key;  // the same index, with a tag that the user chose
		std::uint32_t region_key;
		std::uint64_t address;
		std::uint64_t length;  // 0 unbinds a type-1 window, and is an error for type 2
		std::uint8_t access;
		std::uint32_t qpn;  // 0 for a type-1 window, which any QP of the domain may use
	};

	// From now on the lkey of a region differs from its rkey, and neither can be used as the other.
	// Call it before the first registration.
	void use_distinct_keys() { lkey_mask_ = 0x80; }
	// The lkey of the region with this rkey.
	std::uint32_t lkey_of(std::uint32_t rkey) const { return rkey ^ lkey_mask_; }

	// Returns the rkey of a new region. Throws std::bad_alloc, also
	// when all 2^24 keys are in use.
	std::uint32_t register_region(const Registration&);
	// Both return false, without effect, if no region has the key or windows are bound to the
	// region.
	bool reregister(std::uint32_t key, const Registration&);
	// `now` is the time, for diagnose().
	bool deregister(std::uint32_t key, std::uint64_t now = 0);
	// Returns the key of a new, unbound window. Throws as register_region().
	std::uint32_t allocate_window(std::uint32_t protection_domain);
	// Unbinds and frees a window, given any key that it has had. Returns false if no window had the
	// key.
	bool deallocate_window(std::uint32_t key);
	// Returns false, without effect, on a bind error (IBA 10.6.7).
	bool bind(const Binding&);
	// Why bind() would fail: the first of these that holds. none: it would not.
	struct BindFault {
		enum class Kind : std::uint8_t {
			none,
			window_unknown,  // it was deallocated
			other_window,  // the new key differs in more than its tag
			still_bound,  // a type-2 window must be invalidated first
			no_bytes,  // a type-2 window is unbound by invalidation alone
			region_unknown,
			domain,
			no_bind_right,  // the region lacks window_bind
			bounds,
			no_local_write  // the window would have remote write without the region's local write
		};
		Kind kind = Kind::none;
		std::uint64_t begin = 0, end = 0;  // the region, from no_bind_right on
	};
	BindFault diagnose(const Binding&) const;
	// Unbinds a type-2 window that is bound to the accessor's queue pair (IBA 10.6.7). Returns
	// false if `key` does not name such a window.
	bool invalidate(std::uint32_t key, Accessor accessor);

	// Returns the memory behind [address, address + length) of a key, or null if `owner`, a queue
	// pair, lacks one of the rights `access` to any of these bytes. The pointer is valid until the
	// next change of the table. `owner.accessor()` is called only if the cache misses.
	template <class Owner>
	std::byte* resolve(RegionCache& cache, std::uint32_t key, std::uint64_t address, std::uint32_t length,
		std::uint8_t access, const Owner& owner) {
		// A hit needs the same key, no change of the table since, and enough rights.
		if (cache.key != key || cache.generation != generation_ || (cache.access & access) != access) [[unlikely]]
			if (!fill(cache, key, access, owner.accessor())) return nullptr;
		if (address < cache.begin || address > cache.end || length > cache.end - address) [[unlikely]]
			return nullptr;
		return reinterpret_cast<std::byte*>(address + cache.delta);
	}

	// Why resolve() fails for this use of a key: the first of these that holds. none: it does not.
	// An unused entry keeps its last key and range until it is used again.
	struct Fault {
		enum class Kind : std::uint8_t { none, unknown, retired, domain, rights, bounds };
		Kind kind = Kind::none;
		std::uint8_t access = 0;
		std::uint64_t begin = 0, end = 0;  // the region or window
		std::uint64_t retired_at = 0;
	};
	Fault diagnose(std::uint32_t key, std::uint64_t address, std::uint64_t length, std::uint8_t access, Accessor) const;

	// The number of regions and windows that exist. An unused entry is not counted, although it
	// keeps its key.
	std::size_t regions() const { return live_; }

private:
	enum class Kind : std::uint8_t { unused, region, window };
	static constexpr std::uint32_t no_index = ~std::uint32_t{0};
	struct Entry {
		std::uint64_t begin = 0, end = 0, delta = 0;
		std::uint32_t key = 0;
		std::uint32_t protection_domain = 0;
		std::uint32_t qpn = 0;
		std::uint32_t bound_to = 0;  // index of the region under a bound window
		std::uint32_t next_free = no_index;  // in an unused entry
		std::uint64_t retired_at = 0;  // in an unused entry, for diagnose()
		std::uint32_t windows = 0;  // number of windows bound to this region
		std::uint8_t access = 0;
		Kind kind = Kind::unused;
		bool bound = false;
	};

	bool fill(RegionCache&, std::uint32_t key, std::uint8_t access, Accessor) const;
	Entry* find(std::uint32_t key);
	const Entry* find_window(std::uint32_t key) const;  // ignores the tag
	const Entry* find(std::uint32_t key) const;
	std::uint32_t allocate(Kind, std::uint32_t protection_domain);
	void unbind(Entry&);
	void release(Entry&);
	void set(Entry&, const Registration&);
	void changed() { ++generation_; }

	std::vector<Entry> entries_;
	// The unused entries, oldest first, so that an index is reused late. Their memory is in the
	// entries, so that freeing one cannot fail.
	std::uint32_t free_first_ = no_index, free_last_ = no_index;
	std::size_t live_ = 0;
	std::uint32_t index_mask_;
	std::uint32_t lkey_mask_ = 0;  // the bits in which an lkey differs from the rkey
	std::uint64_t tag_state_;
	std::uint64_t generation_ = 1;
};

}  // namespace verbena::memory
