// SPDX-License-Identifier: Apache-2.0
// The places in the program where it calls verbs.
//
// A site is a call stack. The data path, where walking the stack would cost more than the post,
// names a site by the return address of the call alone, and walks the stack the first time.
//
// Threads: any; a mutex inside.
// Lifetime: sites stay for the life of the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "nic/rules/thread_sanitizer.h"

namespace verbena::rules {

struct Stack {
	static constexpr std::size_t depth_max = 16;
	std::array<std::uintptr_t, depth_max> frames{};  // return addresses, innermost first
	std::size_t depth = 0;
	std::span<const std::uintptr_t> all() const { return {frames.data(), depth}; }
};

// The calling thread's stack, without the frames of the library that contains this function.
Stack stack_here();

using Site = std::uint32_t;  // 0: unknown

class Sites {
public:
	// The site of a call that returns to this address.
	Site of_return(std::uintptr_t return_address);
	// The site of an instruction alone, by the address behind it. 0 if it is in the library that
	// contains this function.
	Site of_instruction(std::uintptr_t next);
	// The site of the whole stack.
	Site here();
	Stack stack_of(Site) const;  // empty for a site that is not known

private:
	Site add(std::uint64_t key, const Stack&);

	mutable UnseenMutex mutex_;
	std::vector<Stack> stacks_{1};
	std::unordered_map<std::uint64_t, Site> known_;
};

}  // namespace verbena::rules
