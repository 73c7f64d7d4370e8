// What one run sets, and what its GETs must bring: bytes of its own for each key of each client, and others in each
// run, so that a SET that was dropped and a value of another key show. Very short values may be alike by chance.
//
// All lie in one source, each at another offset: registered memory, so that none is copied, or without a pool the heap.
#pragma once

#include <vector>

#include "lib/channel/memory.h"
#include "lib/kv/wire.h"

namespace verbena::kvbench {

class Values {
public:
	// For so many keys; `run` is another number in each run.
	Values(std::uint32_t size, std::uint32_t keys, std::uint64_t run, channel::MemoryPool* pool);

	kv::Bytes of(std::uint32_t key) const { return kv::Bytes(bytes()).subspan(offset(key), size_); }
	bool registered() const { return static_cast<bool>(buffer_); }
	// Of registered ones.
	channel::Place place(std::uint32_t key) const { return {buffer_, offset(key), size_}; }

	// Whether this is the key's value: whole up to 4 KiB; above that both ends and the middle, or comparing would be
	// what is measured.
	bool looks_right(std::uint32_t key, kv::Bytes got) const;
	bool is_right(std::uint32_t key, kv::Bytes got) const;

private:
	static constexpr std::size_t stride = 64;  // a cache line: none is set from more of them than another

	static std::size_t offset(std::uint32_t key) { return key * stride; }
	std::span<const std::byte> bytes() const { return buffer_ ? buffer_.bytes() : std::span<const std::byte>(heap_); }

	std::size_t size_;
	channel::Buffer buffer_;
	std::vector<std::byte> heap_;
};

}  // namespace verbena::kvbench
