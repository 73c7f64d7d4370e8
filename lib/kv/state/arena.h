// SPDX-License-Identifier: Apache-2.0
// Arena: memory for blocks of any size, in segments that the caller provides.
//
// A block of up to 32 KiB is one of several equal blocks in a run of pages (size_class.h). A larger
// block has pages of its own. A run without a block in use becomes free pages again, which serve
// blocks of every size.
//
// When there are free bytes, but not enough of them in one piece, blocks are moved: out of the run
// with the fewest blocks into other runs of its class, and to the begin of their segment to join
// the gaps between them. So `in_use()` can come close to the size of the segments, whatever sizes
// came and went. The holder of the blocks says which of them may be moved.
//
// The last few blocks of a small size that were given back are kept as they are for the next
// take(). So a SET that replaces a value costs less here than with malloc.
//
// Threads: any one at a time. No I/O.
// Owns: the bookkeeping, not the memory: a segment belongs to the caller, and is used until the
//   arena is destroyed.
// Errors: take() returns null if there is no room, or if the blocks that would have to be moved
//   may not be moved now.
// Invariants: only take() moves blocks. A block is aligned to 8 bytes and lies in one segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/kv/state/extents.h"
#include "lib/kv/state/size_class.h"

namespace verbena::kv {

// Totals since the arena was made.
struct ArenaCounters {
	std::uint64_t moved = 0, moved_bytes = 0;  // blocks, and their sizes
	std::uint64_t refused = 0;                 // calls of take() that returned null
};

class Arena {
public:
	// The source of segments.
	class Memory {
	public:
		// Returns zeroed, page-aligned memory of this many bytes; null: there is none.
		virtual std::byte* segment(std::size_t bytes) = 0;

	protected:
		~Memory() = default;
	};
	// The user of the blocks. It calls nothing of the arena in these functions.
	class Holder {
	public:
		// True if the bytes of this block may be moved: moved() can change every pointer to it.
		virtual bool movable(const std::byte* block) = 0;
		// The block's bytes are now at `to`. The two may overlap, so `from` must not be read.
		virtual void moved(std::byte* from, std::byte* to) = 0;

	protected:
		~Holder() = default;
	};

	// The first segment has this many bytes, and 1/64 more so that two blocks of nearly half of
	// them fit. Each further one is as large as all before it, up to segment_max.
	static constexpr std::size_t segment_first = std::size_t{128} << 20, segment_max = std::size_t{512} << 20;
	// The most bytes that an arena can have.
	static constexpr std::size_t bytes_most = std::size_t{1} << 42;

	// `bytes_max`: bytes of all segments together.
	Arena(std::size_t bytes_max, Memory& memory, Holder& holder);
	Arena(const Arena&) = delete;
	Arena& operator=(const Arena&) = delete;

	// Returns a block of at least this many bytes, with any content; null if there is no room.
	std::byte* take(std::size_t bytes) {
		if (bytes > kept_size_max || kept_[class_of(bytes)].count == 0) return take_new(bytes);
		Kept& kept = kept_[class_of(bytes)];
		in_use_ += block_size(bytes);
		return kept.blocks[--kept.count];
	}
	// Gives back a block that take(bytes) has returned.
	void give_back(std::byte* block, std::size_t bytes) {
		in_use_ -= block_size(bytes);
		if (bytes > kept_size_max || kept_[class_of(bytes)].count == kept_max) return free(block);
		Kept& kept = kept_[class_of(bytes)];
		kept.blocks[kept.count++] = block;
	}
	// The size of the block that take(bytes) returns.
	static std::size_t block_size(std::size_t bytes) {
		return bytes <= block_max ? run_shapes[class_of(bytes)].block_bytes : pages_for(bytes) * Extents::page_bytes;
	}
	// Frees the blocks that are kept for the next take(); it does so itself when it needs them.
	void flush();

	std::size_t in_use() const { return in_use_; }  // bytes of the blocks that are taken
	// Bytes of all segments.
	std::size_t reserved() const { return extents_.pages() * Extents::page_bytes; }
	std::size_t free_pages() const { return extents_.free_pages(); }
	const ArenaCounters& counters() const { return counters_; }

	// Checks the invariants, for tests. Returns the first broken one, or null.
	const char* broken() const;

private:
	static constexpr std::uint32_t none = Extents::none;
	// The runs of one class that have a free block are in four lists: list 0 has those with at most
	// a quarter of their blocks free, and so on. Blocks are taken from the fullest runs, so that
	// the others become empty.
	static constexpr std::uint8_t list_count = 4, unlisted = list_count;
	struct Class {
		std::array<std::uint32_t, list_count> lists{none, none, none, none};
		std::size_t free_blocks = 0;
	};
	// A few blocks of a small class that were given back last. For their run they are in use.
	static constexpr std::size_t kept_size_max = 4096;
	static constexpr std::uint32_t kept_max = 8;
	struct Kept {
		std::uint32_t count = 0;
		std::array<std::byte*, kept_max> blocks{};
	};
	// Consecutive extents of one segment.
	struct Window {
		std::uint32_t begin = none, end = none;
		std::size_t used = 0;  // pages in use
	};

	static std::uint32_t pages_for(std::size_t bytes) {
		return static_cast<std::uint32_t>((bytes + Extents::page_bytes - 1) / Extents::page_bytes);
	}
	static const RunShape& shape_of(const Page& run) { return run_shapes[run.size_class]; }
	std::byte* block_at(std::uint32_t run, unsigned index) const {
		return extents_.address(run) + std::size_t{index} * shape_of(extents_.at(run)).block_bytes;
	}

	std::byte* take_new(std::size_t bytes);
	void free(std::byte* block);
	std::byte* take_block(std::uint32_t size_class);
	std::byte* take_listed(std::uint32_t size_class);
	std::uint32_t take_pages(std::uint32_t pages);
	bool grow(std::uint32_t pages);
	void list(std::uint32_t run);
	void unlist(std::uint32_t run);

	// Moving (arena_moves.cc).
	bool make_room(std::uint32_t pages);
	bool consolidate();
	std::uint32_t emptiest_movable(std::uint32_t size_class);
	void evacuate(std::uint32_t run);
	bool slide(std::uint32_t pages, std::size_t used_max);
	Window cheapest(std::size_t segment, std::uint32_t pages) const;
	std::uint32_t first_stuck(const Window& window) const;
	void close_gaps(const Window& window);
	void move_extent(std::uint32_t from, std::uint32_t to);
	void move(std::byte* from, std::byte* to, std::size_t bytes);
	bool movable(std::uint32_t extent) const;

	Memory& memory_;
	Holder& holder_;
	std::size_t bytes_max_;
	Extents extents_;
	std::array<Class, class_count> classes_;
	std::array<Kept, class_of(kept_size_max) + 1> kept_;
	std::size_t in_use_ = 0;
	std::size_t hand_ = 0;  // the segment in which slide() begins to search
	ArenaCounters counters_;
};

}  // namespace verbena::kv
