// SPDX-License-Identifier: Apache-2.0
// The memory that the device of a profile would pin for a memory region, counted against
// RLIMIT_MEMLOCK as the kernel does (ib_umem_get() in drivers/infiniband/core/umem.c): whole pages,
// each region by itself, without a limit for a process with CAP_IPC_LOCK. Nothing is pinned indeed.
//
// Threads: any.
// Owns: its part of the process's count.
// Invariants: without a profile nothing is counted, and nothing is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace verbena::verbs {

class PinnedMemory {
public:
	// Counts [address, address + length). Nothing: the process may not pin that much.
	static std::optional<PinnedMemory> pin(std::uint64_t address, std::size_t length);

	PinnedMemory() = default;
	PinnedMemory(PinnedMemory&& from) noexcept : pages_(std::exchange(from.pages_, 0)) {}
	PinnedMemory& operator=(PinnedMemory&& from) noexcept {
		std::swap(pages_, from.pages_);
		return *this;
	}
	~PinnedMemory();

private:
	explicit PinnedMemory(std::uint64_t pages) : pages_(pages) {}

	std::uint64_t pages_ = 0;
};

// Refuses `verb` with ENOMEM, because `length` bytes more would go beyond the limit.
[[gnu::cold]] int refuse_pinned(const char* verb, std::size_t length);

}  // namespace verbena::verbs
