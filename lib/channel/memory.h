// SPDX-License-Identifier: Apache-2.0
// Registered memory, for direct operations (RDMA READ and WRITE) and for large messages.
//
//     Buffer value = pool.take(1 << 20);       // an empty Buffer if there is no memory
//     co_await channel.send(head, value);      // the peer fetches the bytes: they are not copied
//
// channel.h has the operations by which a peer reads or writes such memory directly.
//
// Blocks come in size classes from 4 KiB on, with four classes for each doubling of the size, so at
// most a fifth of a block of more than 4 KiB is unused. Small blocks of one class share a region. A
// block that is given back stays registered for its class, so in a steady state the pool makes no
// registrations. When the watermark is reached, regions without a block in use are freed.
//
// Threads: the thread of the pool's loop; reference counts are not atomic.
// Owns: the memory and all registrations. Adopted memory is the caller's.
// Lifetime: a Buffer is one reference to its block; a block stays in use until the last Buffer is
//   destroyed and the last lease on it has ended. All buffers must be destroyed before their pool.
// Errors: take() returns an empty Buffer if there is no memory for it; adopt() returns a sentence.
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

struct Block;

// The owner of blocks: a MemoryPool, or a program with registered memory of its own.
class BlockOwner {
public:
	// The last Buffer for this block, and the last lease on it, has ended.
	virtual void give_back(Block* block) = 0;

protected:
	~BlockOwner() = default;
};

// A piece of registered memory. It is in use while `references` is not 0.
struct Block {
	Block* next = nullptr;  // for the owner, while the block is not in use
	BlockOwner* owner = nullptr;
	std::byte* data = nullptr;
	std::size_t size = 0;
	ibv_mr* region = nullptr;
	std::uint32_t references = 0;
	std::uint32_t size_class = 0;
};

// A counted handle of a block. Copies refer to the same memory.
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
	std::byte* data() const { return block_->data; }  // not for an empty Buffer
	std::size_t size() const { return size_; }
	std::span<std::byte> bytes() const {
		return block_ == nullptr ? std::span<std::byte>() : std::span(block_->data, size_);
	}
	// The memory region in which the block lies. Not for an empty Buffer.
	ibv_mr* region() const { return block_->region; }

	// Empties the Buffer without ending its reference, and returns the block; drop() ends the
	// reference later.
	Block* release() { return std::exchange(block_, nullptr); }
	static void drop(Block* block) {
		if (--block->references == 0) block->owner->give_back(block);
	}

private:
	Block* block_ = nullptr;
	std::size_t size_ = 0;
};

// A part of a buffer, in bytes: the local memory of a direct operation.
struct Place {
	Buffer buffer;
	std::size_t offset = 0;
	std::size_t length = 0;

	Place() = default;
	// NOLINTNEXTLINE(google-explicit-constructor)
	Place(Buffer whole) : buffer(std::move(whole)), length(buffer.size()) {}
	Place(Buffer of, std::size_t from, std::size_t bytes) : buffer(std::move(of)), offset(from), length(bytes) {}
	std::span<std::byte> bytes() const { return buffer.bytes().subspan(offset, length); }
};

// Memory that a peer shares with this end: 16 bytes, little-endian, to be sent as they are.
struct RemoteMemory {
	std::uint64_t address = 0;
	std::uint32_t length = 0;
	std::uint32_t rkey = 0;

	// Returns the part of `bytes` bytes that begins at byte `from`.
	RemoteMemory part(std::uint32_t from, std::uint32_t bytes) const { return {address + from, bytes, rkey}; }
	bool operator==(const RemoteMemory&) const = default;
};
static_assert(sizeof(RemoteMemory) == 16);

// The access that a peer gets to shared memory.
enum class Right : std::uint8_t { read, write };

struct MemoryOptions {
	std::size_t max = std::size_t{1} << 30;  // the watermark: bytes of all regions, in use or not
	// Bytes of a region that small blocks share. A block of more than a quarter of this has a
	// region of its own.
	std::size_t region_bytes = 4 << 20;
};

struct MemoryCounters {
	std::uint64_t registrations = 0;  // ibv_reg_mr calls
	std::uint64_t refused = 0;  // calls of take() that returned an empty Buffer
};

class MemoryPool final : private BlockOwner {
public:
	static constexpr std::size_t block_min = 4096;  // bytes of the smallest block

	// `access`: the access flags of every registration, for ibv_reg_mr.
	MemoryPool(ibv_pd* domain, int access, const MemoryOptions& options);
	~MemoryPool();
	MemoryPool(const MemoryPool&) = delete;
	MemoryPool& operator=(const MemoryPool&) = delete;

	// Returns a Buffer of `size` bytes, which may be 0, in a block of its own. The Buffer is empty
	// if a new region would exceed the watermark, or if there is no memory to register.
	Buffer take(std::size_t size);
	// Bytes of the block in which take(size) puts its Buffer; in_use() grows by this number.
	static std::size_t block_size(std::size_t size);
	// Registers the caller's own memory until the last Buffer for it is destroyed; the memory must
	// stay mapped until then.
	std::expected<Buffer, std::string> adopt(std::span<std::byte> memory);

	// Bytes of all regions, in use or not. Adopted memory does not count.
	std::size_t registered() const { return registered_; }
	// Bytes of all blocks in use, and of adopted memory.
	std::size_t in_use() const { return in_use_; }
	std::size_t regions() const { return regions_.size(); }  // the number of them, none adopted
	const MemoryCounters& counters() const { return counters_; }
	// Sets a function that is called whenever a block of the pool is given back, so that a refused
	// caller can try again. It is not called for adopted memory.
	void on_freed(std::function<void()> freed) { freed_ = std::move(freed); }

private:
	// BlockOwner
	void give_back(Block* block) override;
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
