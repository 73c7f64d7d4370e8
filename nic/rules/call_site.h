// SPDX-License-Identifier: Apache-2.0
// The places in the program where it calls verbs.
//
// A site is a call stack. Walking it would cost the data path more than the post. So the first walk
// notes where on the stack the return addresses lie. A later call with the same return address has
// the same frames if it finds the same addresses there: the size of a frame depends on the function
// alone. Where that is not so (alloca(3)), or a frame lies elsewhere, the stack is walked again.
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
#include <utility>
#include <vector>

#include "nic/rules/thread_sanitizer.h"

namespace verbena::rules {

struct Stack {
	static constexpr std::size_t depth_max = 16;
	std::array<std::uintptr_t, depth_max> frames{};  // return addresses, innermost first
	std::size_t depth = 0;
	std::span<const std::uintptr_t> all() const { return {frames.data(), depth}; }
};

// The addresses of the calling thread's stack, from its first byte to behind its last one; zeros if
// they cannot be found.
std::pair<std::uintptr_t, std::uintptr_t> stack_of_thread();

// The calling thread's stack, without the frames of the library that contains this function.
Stack stack_here();

using Site = std::uint32_t;  // 0: unknown

class Sites {
public:
	// The site of a call that returns to this address. `frame`: that of the function which the
	// program has called. Callers beyond the innermost eight make no other site.
	Site of_return(std::uintptr_t return_address, std::uintptr_t frame);
	// The site of an instruction alone, by the address behind it. 0 if it is in the library that
	// contains this function.
	Site of_instruction(std::uintptr_t next);
	// The site of the whole stack.
	Site here();
	Stack stack_of(Site) const;  // empty for a site that is not known

private:
	// A frame of a stack: its return address, and the distance of the place where this lies.
	struct Link {
		std::uintptr_t distance, return_address;
	};
	static constexpr std::size_t links_max = 8;
	static constexpr std::size_t variants_max = 256;
	struct Variant {
		Site site;
		std::size_t count = 0;
		std::array<Link, links_max> links{};
	};
	static bool is_here(const Variant&, std::uintptr_t frame, std::uintptr_t stack_end);
	Site add(std::uint64_t key, const Stack&);

	mutable UnseenMutex mutex_;
	std::vector<Stack> stacks_{1};
	std::unordered_map<std::uint64_t, Site> known_;
	std::unordered_map<std::uintptr_t, std::vector<Variant>> variants_;  // by return address
};

}  // namespace verbena::rules
