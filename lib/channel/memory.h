// Registered memory, for direct operations (RDMA READ and WRITE) and for large messages.
//
//     Buffer value = pool.take(1 << 20);                   // empty: above the watermark
//     auto lease = co_await channel.lend({value, 0, value.size()}, Right::read);
//     co_await channel.send(bytes_of(lease->remote()));    // the peer reads by co_await channel.read(place, remote)
//
// A Buffer is a counted handle of a block; its memory stays until the last handle and the last lease are gone. A pool
// never registers in its steady state: blocks come in size classes (four to a doubling, so at most a fifth is unused),
// small ones many to a region, and go back to their class. Everything here belongs to the thread of the pool's loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/region_memory.h"
#include "lib/verbs/objects.h"

namespace verbena::channel {

class MemoryPool;

struct Block {
	Block* next = nullptr;
	MemoryPool* pool = nullptr;
	std::byte* data = nullptr;
	std::size_t size = 0;
	ibv_mr* region = nullptr;
	std::uint32_t references = 0;
	std::uint32_t size_class = 0;
};

class Buffer {
public:
	Buffer() = default;
	explicit Buffer(Block* block, std::size_t size) : block_(block), size_(size) { ++block_->references; }
	Buffer(const Buffer& other) : block_(other.block_), size_(other.size_) {
		if (block_ != nullptr) ++block_->references;
	}
	Buffer(Buffer&& other) noexcept
		: block_(std::exchange(other.block_, nullptr)), size_(std::exchange(other.size_, 0)) {}
	Buffer& operator=(Buffer other) noexcept {
		std::swap(block_, other.block_);
		std::swap(size_, other.size_);
		return *this;
	}
	~Buffer() {
		if (block_ != nullptr) drop(block_);
	}

	explicit operator bool() const { return block_ != nullptr; }
	std::byte* data() const { return block_->data; }
	std::size_t size() const { return size_; }
	std::span<std::byte> bytes() const {
		return block_ == nullptr ? std::span<std::byte>() : std::span(block_->data, size_);
	}
	ibv_mr* region() const { return block_->region; }

	// As a plain pointer, and back: the count goes with it.
	Block* release() { return std::exchange(block_, nullptr); }
	static void drop(Block* block) {
		if (--block->references == 0) give_back(block);
	}

private:
	static void give_back(Block* block);

	Block* block_ = nullptr;
	std::size_t size_ = 0;
};

// Part of a buffer: where a direct operation reads or writes at this end.
struct Place {
	Buffer buffer;
	std::size_t offset = 0;
	std::size_t length = 0;

	Place() = default;
	Place(Buffer whole) : buffer(std::move(whole)), length(buffer.size()) {}  // NOLINT(google-explicit-constructor)
	Place(Buffer of, std::size_t from, std::size_t bytes) : buffer(std::move(of)), offset(from), length(bytes) {}
	std::span<std::byte> bytes() const { return buffer.bytes().subspan(offset, length); }
};

// What a peer lent to this end: 16 bytes, little-endian, to be sent as they are.
struct RemoteMemory {
	std::uint64_t address = 0;
	std::uint32_t length = 0;
	std::uint32_t rkey = 0;

	RemoteMemory part(std::uint32_t from, std::uint32_t bytes) const { return {address + from, bytes, rkey}; }
	bool operator==(const RemoteMemory&) const = default;
};
static_assert(sizeof(RemoteMemory) == 16);

enum class Right : std::uint8_t { read, write };

struct MemoryOptions {
	std::size_t max = std::size_t{1} << 30;      // the watermark: bytes of all blocks, free or not
	std::size_t region_bytes = 4 << 20;  // of the regions that small blocks are cut from; larger blocks have their own
};

struct MemoryCounters {
	std::uint64_t registrations = 0;  // ibv_reg_mr calls
	std::uint64_t refused = 0;  // a take() above the watermark
};

class MemoryPool {
public:
	static constexpr std::size_t block_min = 4096;

	// `access`: of every registration, for ibv_reg_mr.
	MemoryPool(ibv_pd* domain, int access, const MemoryOptions& options);
	~MemoryPool();
	MemoryPool(const MemoryPool&) = delete;
	MemoryPool& operator=(const MemoryPool&) = delete;

	// `size` may be 0. Empty: above the watermark, or out of memory.
	Buffer take(std::size_t size);
	// What in_use() grows by with it.
	static std::size_t block_size(std::size_t size);
	// The user's own memory, registered until the last handle is gone; it must stay mapped so long.
	std::expected<Buffer, std::string> adopt(std::span<std::byte> memory);

	std::size_t registered() const { return registered_; }  // bytes, free or not, without adopted ones
	std::size_t in_use() const { return in_use_; }
	std::size_t regions() const { return regions_.size(); }
	const MemoryCounters& counters() const { return counters_; }
	// Called whenever a block is given back: for who was refused one.
	void on_freed(std::function<void()> freed) { freed_ = std::move(freed); }

private:
	friend class Buffer;
	void give_back(Block* block);
	bool grow(std::uint32_t size_class);
	bool free_unused(std::size_t wanted);

	struct Region {
		RegionMemory memory;
		lib::MemoryRegion registration;
		std::vector<Block> blocks;
	};
	static constexpr std::uint32_t class_count = 100, adopted = ~0u;

	ibv_pd* domain_;
	int access_;
	MemoryOptions options_;
	std::function<void()> freed_;
	std::array<Block*, class_count> free_{};
	std::vector<std::unique_ptr<Region>> regions_;
	std::size_t registered_ = 0, in_use_ = 0;
	MemoryCounters counters_;
};

}  // namespace verbena::channel
