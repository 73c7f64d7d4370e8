// SPDX-License-Identifier: Apache-2.0
// Values: the random values that one run sets, and that its GETs must return.
//
// Each key of each client has a value of its own, which differs from run to run. So a SET that was
// dropped, and the value of another key, are detected; very short values may be equal by chance.
// All values overlap in one block of random bytes, each at its own offset. The block is registered
// memory, so that no SET copies it, or lies on the heap if there is no pool.
//
// Threads: one.
// Lifetime: dies before the pool.
#pragma once

#include <vector>

#include "lib/channel/memory.h"
#include "lib/kv/wire.h"

namespace verbena::kvbench {

class Values {
public:
	// `keys` counts those of all clients. `run` is the random seed, another number in each run.
	Values(std::uint32_t size, std::uint32_t keys, std::uint64_t run, channel::MemoryPool* pool);

	kv::Bytes of(std::uint32_t key) const { return kv::Bytes(bytes()).subspan(offset(key), size_); }
	// True if the values lie in registered memory.
	bool registered() const { return static_cast<bool>(buffer_); }
	// Call it only if registered().
	channel::Place place(std::uint32_t key) const { return {buffer_, offset(key), size_}; }

	// Compares a fetched value with the key's. If it is longer than 4 KiB, only both ends and the
	// middle are compared, because otherwise the comparison would dominate the measured time.
	bool looks_right(std::uint32_t key, kv::Bytes got) const;
	// Compares the whole value.
	bool is_right(std::uint32_t key, kv::Bytes got) const;

private:
	static constexpr std::size_t stride = 64;  // a cache line: values of one size span equally many

	static std::size_t offset(std::uint32_t key) { return key * stride; }
	std::span<const std::byte> bytes() const { return buffer_ ? buffer_.bytes() : std::span<const std::byte>(heap_); }

	std::size_t size_;
	channel::Buffer buffer_;
	std::vector<std::byte> heap_;
};

}  // namespace verbena::kvbench
