// SPDX-License-Identifier: Apache-2.0
// The turns of threads that post to one queue, or poll one, while the checker notes what they do.
//
// The checker must note the requests of a queue in the order in which the NIC takes them, and the
// completions in the order in which it gives them. Else the completion of one thread's request
// would end the record of another's.
//
// Threads: any. A thread that has a turn takes no other one of the same Turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nic/rules/thread_sanitizer.h"

namespace verbena::verbs {

class Turns {
public:
	// That of this queue, which some others share.
	rules::UnseenMutex& of(const void* queue) {
		return mutexes_[(reinterpret_cast<std::uintptr_t>(queue) * 0x9e3779b97f4a7c15) >> (64 - bits)];
	}

private:
	static constexpr int bits = 6;
	std::array<rules::UnseenMutex, std::size_t{1} << bits> mutexes_;
};

}  // namespace verbena::verbs
